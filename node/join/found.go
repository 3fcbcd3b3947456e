package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"porthole.dev/porthole/join/credential"
	"porthole.dev/porthole/join/preflight"
	"porthole.dev/porthole/node/kubelet"
	"porthole.dev/porthole/node/routes"
)

// found is what a run found out about this machine and the cluster. Nothing was changed for it.
type found struct {
	facts    preflight.Facts
	api      *credential.API     // to ask the cluster; nil if there is no way to it
	cluster  *credential.Cluster // nil if none was found
	settings *credential.Settings
	// bootstrap asks for the node's certificate; nil on a machine that has one.
	bootstrap *credential.API
	// unusable is why the node's certificate, which is there, cannot be used; nil if it can, or if there is none.
	unusable error

	network        string // of the pods
	pods, services string // ranges
}

// close ends the connection to the cluster, if there is one.
func (f *found) close() {
	if f.api != nil {
		f.api.Close()
	}
}

// findCluster finds the cluster and reads what the checks and the steps need of it. What stood in the way is in the
// facts.
func (f *found) findCluster(ctx context.Context, s *Setup, r Request, before earlier) {
	c := &f.facts.Cluster
	c.KubeletVers, c.UUID = kubelet.Version, s.UUID
	err := f.reach(ctx, s, r, before)
	// What is known of the cluster is noted even if it could not be reached to the end: the checks
	// tell from it what is wrong.
	if f.cluster != nil {
		c.Server = f.cluster.Server
		c.CAHash = f.cluster.CAHash
		c.Skew = f.cluster.Skew
		c.SkewKnown = f.cluster.SkewKnown
		c.Now = time.Now().Add(-c.Skew)
		if list, err := credential.ParseCA(f.cluster.CA); err == nil {
			c.NotBefore = list[0].NotBefore
			c.NotAfter = list[0].NotAfter
		}
	}

	if err == nil {
		err = f.read(ctx, s, before)
	}
	if err != nil {
		c.Problem = problem(err)
	}
}

// problem words an error for the checks. One without a check of its own counts as a failed
// discovery.
func problem(err error) *preflight.Problem {
	var p *credential.Problem
	if errors.As(err, &p) {
		return &preflight.Problem{Check: p.Check, Text: p.Text, Cure: p.Cure}
	}
	return &preflight.Problem{Check: "Discovery", Text: err.Error()}
}

// reach finds the way to the cluster: by this machine's own certificate if it is a node already, else by token or file.
func (f *found) reach(ctx context.Context, s *Setup, r Request, before earlier) (err error) {
	if before.begun && f.asNode(s, r.Pins) {
		return nil
	}
	switch {
	case r.File != "":
		file, err := credential.ReadFile(ctx, r.File)
		if err != nil {
			return err
		}
		// A file with credentials of its own makes a token unnecessary.
		f.cluster = &file.Cluster
		if file.HasCredentials() && !r.TLSToken.Valid() {
			f.bootstrap, err = file.API()
			f.api = f.bootstrap
			return err
		}
	case r.Token.Valid():
		f.cluster, err = credential.Discovery{Endpoint: r.Endpoint, Token: r.Token, Pins: r.Pins,
			SkipCA: r.SkipCA}.Discover(ctx)
		if err != nil {
			return err
		}
	default:
		text := "this machine has no certificate of a node, and no token was given"
		if f.unusable != nil {
			text = fmt.Sprintf("the certificate of this node cannot be used (%v), and no token was given for a new one",
				f.unusable)
		}
		return &credential.Problem{Check: "Discovery", Text: text,
			Cure: "kubeadm token create --print-join-command, and that line with porthole"}
	}

	// From here the cluster is known, and the token is the way to a certificate.
	f.bootstrap, err = f.cluster.With(r.TLSToken, nil)
	f.api = f.bootstrap
	return err
}

// asNode finds the cluster by the certificate of an earlier run. It reports false if there is none that can be used, or
// if another cluster is asked for.
func (f *found) asNode(s *Setup, pins credential.Pins) bool {
	file, err := s.readKubeconfig()
	if err != nil || file.Pair == nil {
		return false
	}
	// Pins limit a cluster of before too: another authority than the pinned ones is not trusted.
	if file.Cluster, err = pins.Limit(file.Cluster); err != nil {
		return false
	}
	pair, err := os.ReadFile(s.Pair())
	if err != nil {
		return false
	}
	if _, f.unusable = credential.Usable(pair, s.Name, file.Cluster.CA); f.unusable != nil {
		return false
	}

	f.cluster = &file.Cluster
	f.api, err = file.API()
	return err == nil
}

// read asks the cluster for its settings, and for a node of our name.
func (f *found) read(ctx context.Context, s *Setup, before earlier) (err error) {
	c := &f.facts.Cluster
	for try := 0; ; try++ { // a control plane may be restarting
		f.settings, err = f.api.ReadSettings(ctx)
		if err == nil || !errors.Is(err, credential.ErrUnreachable) || try == 2 || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	// What the user says counts before the cluster's settings, and these before what an earlier run
	// noted.
	f.pods = cmp.Or(s.PodCIDR, f.settings.PodSubnet, s.Journal.Facts[factPods])
	f.services = cmp.Or(s.ServiceCIDR, f.settings.ServiceSubnet, s.Journal.Facts[factServices])
	f.network = cmp.Or(s.Network, before.network, f.settings.Mode, routes.DefaultMode)

	c.Version = f.settings.Version
	c.PodSubnet = f.pods
	c.ServiceSubnet = f.services
	linuxSettings(&f.facts, f.settings.Kubelet)
	if c.Network.Wanted = f.network; f.network == routes.OVN {
		f.facts.OpenVSwitch = askSwitch(ctx, switchOptions(s))
	}
	node, err := f.api.NodeOf(ctx, s.Name)
	if err != nil {
		return err
	}
	// A node that has joined asks for the others with its own certificate later.
	if c.Network.Declared = f.settings.Mode; !before.joined {
		if err := readNodes(ctx, f.api, s.Name, &c.Network); err != nil {
			return err
		}
	}
	// The checks decide whether an object of our name is this machine.
	if node != nil {
		c.Existing = &preflight.ExistingNode{Ready: preflight.IsReady(node), UUID: node.Status.NodeInfo.SystemUUID}
	}
	return nil
}
