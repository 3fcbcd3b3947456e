package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/ovn/nb"
)

// Two hosts with one system-id write the same chassis in turn, each as soon as it sees what the other wrote: many
// times a second with OVN 23.03. A node whose address changes writes its chassis once.
const (
	turns      = 4                // that many changes between fewer hosts, within turnsTime, are those of two hosts
	turnsTime  = 10 * time.Second // from the first to the last of them
	quietAfter = 15 * time.Second // without another change they are over
)

// turn is a change of a chassis.
type turn struct {
	at   time.Time
	host string // what the chassis is since then: its addresses and the host's name
}

// rivals notes the last changes of each chassis, by its name. It is safe for concurrent use.
type rivals struct {
	mu   sync.Mutex
	last map[string][]turn
}

// saw notes what a chassis is at the time now, and returns true if that shows for the first time that two hosts write
// it.
func (r *rivals) saw(now time.Time, chassis, host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.last[chassis]
	if host == "" || len(list) > 0 && list[len(list)-1].host == host {
		return false
	}
	before := len(hostsOf(list, now)) > 0
	list = append(list, turn{now, host})
	list = list[max(0, len(list)-turns):]
	if r.last == nil {
		r.last = map[string][]turn{}
	}
	r.last[chassis] = list
	return !before && len(hostsOf(list, now)) > 0
}

// hostsOf returns the hosts that write a chassis in turn, sorted; none if there is only one.
func hostsOf(list []turn, now time.Time) []string {
	if len(list) < turns || list[turns-1].at.Sub(list[0].at) > turnsTime || now.Sub(list[turns-1].at) > quietAfter {
		return nil
	}
	hosts := map[string]bool{}
	for _, t := range list {
		hosts[t.host] = true
	}
	if len(hosts) == turns {
		return nil
	}
	return slices.Sorted(maps.Keys(hosts))
}

// problems names each chassis that two hosts write.
func (r *rivals) problems(now time.Time) (list []nb.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, chassis := range slices.Sorted(maps.Keys(r.last)) {
		hosts := hostsOf(r.last[chassis], now)
		if len(hosts) == 0 {
			continue
		}
		list = append(list, nb.Problem{Kind: "Node", Key: chassis, Reason: "ChassisTwice",
			Text: fmt.Sprintf("two hosts are chassis %s of OVN in turn, %s: packets of the node's pods are lost. "+
				"Both have the id %s (external_ids:system-id in the database of their Open vSwitch), as a copy of a node's disk has. "+
				"Stop ovn-controller on the one that is not node %s, and give it an id of its own before it starts again",
				chassis, strings.Join(hosts, " and "), chassis, chassis)})
	}
	return list
}

// watchChassis follows the chassis in the southbound database until ctx ends.
func (c *Controller) watchChassis(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := c.followChassis(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			failures = 0
		}
		failures++
		klog.FromContext(ctx).V(1).Info("The southbound database is away", "err", err.Error())
		wakeup.Pause(ctx, backoff.Wait(failures))
	}
}

// followChassis works with one connection until that ends.
func (c *Controller) followChassis(ctx context.Context) error {
	dialling, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	client, err := ovsdb.Dial(dialling, c.o.SB)
	if err != nil {
		return err
	}
	defer client.Close()
	changed := wakeup.New()
	cache, err := client.Monitor(dialling, "OVN_Southbound",
		map[string][]string{"Chassis": {"name", "hostname", "encaps"}, "Encap": {"ip"}}, changed.Wake)
	if err != nil {
		return err
	}

	for {
		for name, host := range chassisOf(cache.Tables()) {
			if c.rivals.saw(time.Now(), name, host) {
				c.Changed()
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-client.Done():
			return client.Err()
		case <-changed:
		}
	}
}

// chassisOf returns what each chassis is. One without an address is left out: it is being made.
func chassisOf(rows nb.Rows) map[string]string {
	all := map[string]string{}
	for _, row := range rows["Chassis"] {
		ends := map[string]bool{}
		for _, id := range row.UUIDs("encaps") {
			if at := rows["Encap"][id].Text("ip"); at != "" {
				ends[at] = true
			}
		}
		if len(ends) > 0 {
			all[row.Text("name")] = strings.Join(slices.Sorted(maps.Keys(ends)), ", ") + " (host " +
				row.Text("hostname") + ")"
		}
	}
	return all
}
