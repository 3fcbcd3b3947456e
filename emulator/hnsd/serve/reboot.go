package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/internal/atomicfile"
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
	for i, names := range [][]string{q.Keep, q.Lose} {
		for _, name := range names {
			at := slices.IndexFunc(RebootThings(), func(t string) bool { return strings.EqualFold(t, name) })
			if at < 0 {
				return nil, fmt.Errorf("a reboot neither keeps nor loses %q: there are %s", name,
					strings.Join(RebootThings(), ", "))
			}
			thing := RebootThings()[at]
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
	s.life.enter("starting")
	s.subscribers.endAll()
	counts, err := s.loseInReboot(ctx, lost)
	if host, ok := s.plane.(interfaces); ok && err == nil && lost[rebootForwarding] {
		counts[rebootForwarding], err = host.ForgetForwarding()
	}
	s.handles.forget()
	s.life.enter("running")
	s.life.mu.Lock()
	s.life.restarts++
	s.life.mu.Unlock()
	klog.FromContext(ctx).Info("HNS after a reboot", "lost", counts)
	return RebootStatus{Lost: counts}, err
}

// loseInReboot removes what the reboot loses and returns how many of each. Objects and attachments go in one commit.
// Lost rules are different: the load balancers stay listed, and only the data plane no longer has them.
func (s *Service) loseInReboot(ctx context.Context, lost map[string]bool) (map[string]int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	counts := map[string]int{}
	_, err := s.commit(ctx, func(state *hnsd.State) (*hnsd.State, error) {
		next := state
		for _, kind := range slices.Sorted(maps.Keys(lost)) {
			if !lost[kind] || !slices.Contains(hnsd.KindNames(), kind) {
				continue
			}
			var err error
			if next, counts[kind], err = s.host.Lose(next, func(o *hnsd.Object) bool { return o.Is(kind) },
				false); err != nil {
				return nil, err
			}
		}
		var err error
		transient := 0
		if next, transient, err = s.host.Lose(next, (*hnsd.Object).Transient, false); err != nil {
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
	})
	if err != nil || !lost[rebootRules] {
		return counts, err
	}

	for _, o := range s.state.Load().List(hnsd.LoadBalancer) {
		s.planeLost[o.ID] = true
		counts[rebootRules]++
	}
	return counts, errors.Join(s.saveLoss(), s.reapply(ctx))
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

// rebootHost answers POST /reboot.
func (s controls) rebootHost(w http.ResponseWriter, r *http.Request) {
	var q RebootRequest
	if !decode(w, r, &q, `{"keep": […], "lose": […]}`) {
		return
	}
	if _, err := lostInReboot(q); err != nil {
		refuse(w, err)
		return
	}
	status, err := s.reboot(r.Context(), q)
	reply(w, status, err)
}

// lossPath is the file that keeps which objects are listed and carry no packets, beside the journal.
func lossPath(journal string) string { return filepath.Join(filepath.Dir(journal), "unplumbed.json") }

// saveLoss writes planeLost to a file, so that the rules stay lost when the daemon starts again. The caller holds
// writing.
func (s *Service) saveLoss() error {
	if len(s.planeLost) == 0 {
		err := os.Remove(lossPath(s.journal.path))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	data, err := json.Marshal(slices.Sorted(maps.Keys(s.planeLost)))
	if err != nil {
		return err
	}
	return atomicfile.Write(lossPath(s.journal.path), data, 0o600)
}

// readLoss reads what saveLoss kept.
func readLoss(journal string) (map[string]bool, error) {
	lost := map[string]bool{}
	data, err := os.ReadFile(lossPath(journal))
	if errors.Is(err, os.ErrNotExist) {
		return lost, nil
	}
	var ids []string
	if err == nil {
		err = json.Unmarshal(data, &ids)
	}
	if err != nil {
		return nil, fmt.Errorf("reading which HNS objects carry no packets: %w", err)
	}
	for _, id := range ids {
		lost[id] = true
	}
	return lost, nil
}
