package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/objects"
)

// RebootRequest plays what a reboot of the host does to HNS. HNS keeps its objects in a store, and what carries their
// packets is gone. Keep and Lose name things that differ from the defaults: a kind of hnsd.KindNames,
// rebootAttachments, rebootRules or rebootForwarding.
type RebootRequest struct {
	Keep []string `json:"keep,omitempty"`
	Lose []string `json:"lose,omitempty"`
}

// RebootStatus is the result of a reboot: how many of each thing HNS lost.
type RebootStatus struct {
	Lost map[string]int `json:"lost"`
}

const (
	// rebootAttachments are the attachments of endpoints to namespaces. An endpoint that loses its attachment is
	// listed, is in no namespace and has no adapter.
	rebootAttachments = "Attachment"
	// rebootRules are the rules that carry packets of load balancers. Without them load balancers are listed and do
	// not work (microsoft/wcnscripts#24).
	rebootRules = "Rule"
	// rebootForwarding is that interfaces forward packets in transit, which programs have set.
	rebootForwarding = "Forwarding"
)

// rebootLoses are the things that a reboot loses unless they are kept (all unverified, no. 16). The host's own
// namespace always stays.
var rebootLoses = []string{hnsd.Namespace.String(), rebootAttachments, rebootRules, rebootForwarding}

// lostInReboot returns which of RebootThings a request loses. It returns an error for other names, and for what is
// both kept and lost.
func lostInReboot(q RebootRequest) (map[string]bool, error) {
	lost := map[string]bool{}
	for _, thing := range rebootLoses {
		lost[thing] = true
	}
	// The first list is what is kept, the second what is lost; later entries win over the defaults.
	for i, names := range [][]string{q.Keep, q.Lose} {
		for _, name := range names {
			at := slices.IndexFunc(RebootThings(), func(t string) bool { return strings.EqualFold(t, name) })
			if at < 0 {
				return nil, fmt.Errorf("a reboot neither keeps nor loses %q: there are %s", name,
					strings.Join(RebootThings(), ", "))
			}
			thing := RebootThings()[at]
			// Keep has been read when Lose is.
			if i == 1 && slices.ContainsFunc(q.Keep, func(kept string) bool { return strings.EqualFold(kept, thing) }) {
				return nil, fmt.Errorf("%s is to be both kept and lost", thing)
			}
			lost[thing] = i == 1
		}
	}
	return lost, nil
}

// RebootThings are what a reboot can keep or lose.
func RebootThings() []string {
	return append(hnsd.KindNames(), rebootAttachments, rebootRules, rebootForwarding)
}

// reboot carries out a request. Calls are refused meanwhile, as while the service starts; afterwards every handle and
// every registration of programs has ended, and nobody was notified of what was lost.
func (s *Service) reboot(ctx context.Context, q RebootRequest) (RebootStatus, error) {
	lost, err := lostInReboot(q)
	if err != nil {
		return RebootStatus{}, err
	}
	counts := map[string]int{}
	err = s.life.whileDown(func() error {
		// counts has an entry only for what the reboot was to lose.
		err := s.losses.inReboot(ctx, lost, counts)
		if err != nil || !lost[rebootForwarding] {
			return err
		}
		n, ok, err := s.stack.ForgetForwarding()
		if ok {
			counts[rebootForwarding] = n
		}
		return err
	})
	klog.FromContext(ctx).Info("HNS after a reboot", "lost", counts)
	return RebootStatus{Lost: counts}, err
}

// inReboot removes what the reboot loses and adds how many of each to counts. Objects and attachments go in one change.
// Lost rules are different: the load balancers stay listed, and only the data plane no longer has them.
func (l losses) inReboot(ctx context.Context, lost map[string]bool, counts map[string]int) error {
	return l.objects.Alone(func(w objects.Writer) error {
		err := w.Change(ctx, func(state *hnsd.State) (*hnsd.State, error) {
			return l.afterReboot(state, lost, counts)
		})
		if err != nil || !lost[rebootRules] {
			return err
		}
		state := l.objects.State()
		var ids []string
		for _, o := range state.List(hnsd.LoadBalancer) {
			ids = append(ids, o.ID)
		}
		counts[rebootRules] += len(ids)
		return l.carried.Lose(ctx, state, ids)
	})
}

// afterReboot is the state without what the reboot loses. It adds to counts how many of each that are.
func (l losses) afterReboot(state *hnsd.State, lost map[string]bool, counts map[string]int) (*hnsd.State, error) {
	next := state
	var err error
	// Kinds are lost in the order of their names, so that the counts do not change from run to run.
	for _, kind := range slices.Sorted(maps.Keys(lost)) {
		if !lost[kind] || !slices.Contains(hnsd.KindNames(), kind) {
			continue
		}
		is := func(o *hnsd.Object) bool { return o.Is(kind) }
		if next, counts[kind], err = l.host.Lose(next, is, false); err != nil {
			return nil, err
		}
	}

	// Networks that no reboot keeps go whatever the request says.
	transient := 0
	if next, transient, err = l.host.Lose(next, (*hnsd.Object).Transient, false); err != nil {
		return nil, err
	}
	if transient > 0 {
		counts[hnsd.Network.String()] += transient
	}
	if lost[rebootAttachments] {
		if next, counts[rebootAttachments], err = hnsd.DetachAll(next); err != nil {
			return nil, err
		}
	}
	return withoutNetns(next), nil
}

// withoutNetns returns the state without the paths of network namespaces that are gone, as those of containers are
// when the host reboots. The data plane then makes a new network namespace for each such HNS namespace.
func withoutNetns(state *hnsd.State) *hnsd.State {
	for _, o := range state.List(hnsd.Namespace) {
		if _, err := os.Lstat(o.Path); o.Path != "" && errors.Is(err, os.ErrNotExist) {
			state = state.Bind(o.ID, "")
		}
	}
	return state
}
