package preflight

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// problemOf reports why the cluster could not be reached or trusted.
func problemOf(name string) func(*Facts) finding {
	return func(f *Facts) finding {
		if p := f.Cluster.Problem; p != nil && p.Check == name {
			return fail(p.Text, p.Cure)
		}
		return finding{}
	}
}

// unknown reports whether nothing is known about the cluster, which another check has said.
func unknown(f *Facts) bool { return f.Cluster.Problem != nil }

func clock(f *Facts) finding {
	c := f.Cluster
	if !c.SkewKnown {
		return finding{}
	}
	by, where := c.Skew, "ahead of"
	if by < 0 {
		by, where = -by, "behind"
	}
	cure := "set the time (w32tm /resync)"
	if f.System != "windows" {
		cure = "set the time (chronyc makestep, or timedatectl set-ntp true)"
	}

	switch {
	case by > clockError:
		return fail(fmt.Sprintf("this machine's clock is %s %s the API server's", by, where), cure)
	case !c.NotBefore.IsZero() && (c.Now.Add(c.Skew).Before(c.NotBefore) || c.Now.Add(c.Skew).After(c.NotAfter)):
		return fail(
			fmt.Sprintf(
				"by this machine's clock, %s %s the API server's, the cluster's certificates are not valid (%s to %s)",
				by, where,
				c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339)), cure)
	case by > clockWarning:
		return warn(fmt.Sprintf("this machine is %d s %s the API server", int(by.Seconds()), where), cure)
	}
	return finding{}
}

// minor returns the second number of a version such as v1.36.3; false if it has none.
func minor(version string) (int, bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimRight(parts[1], "+"))
	return n, err == nil
}

// Kubernetes supports kubelets up to three minor versions older than the API server, and none that is newer. With 1.34
// and 1.35 ours is tested.
const oldest = 3

func version(f *Facts) finding {
	if unknown(f) {
		return finding{}
	}
	ours, known := minor(f.Cluster.KubeletVers)
	theirs, alsoKnown := minor(f.Cluster.Version)
	if !known || !alsoKnown {
		return warn(fmt.Sprintf("the versions of the kubelet (%s) and of the API server (%s) cannot be compared",
			f.Cluster.KubeletVers, f.Cluster.Version), "")
	}
	text := fmt.Sprintf("kubelet %s is newer than the API server %s; Kubernetes does not support that",
		f.Cluster.KubeletVers, f.Cluster.Version)
	switch {
	case ours > theirs && theirs >= 34:
		return warn(text, "")
	case ours > theirs:
		return fail(text, "upgrade the control plane, or --ignore-preflight-errors=KubeletVersion")
	case theirs-ours > oldest:
		return fail(fmt.Sprintf("kubelet %s is more than %d minor versions older than the API server %s",
			f.Cluster.KubeletVers, oldest, f.Cluster.Version), "use a newer Porthole")
	}
	return finding{text: f.Cluster.Version}
}

func nodeName(f *Facts) finding {
	n := f.Cluster.Existing
	switch {
	case unknown(f) || n == nil:
		return finding{}
	case f.Joined != nil && f.Joined.Node == f.Node: // a join that is finished
		return finding{}
	case n.Ready:
		return fail(
			fmt.Sprintf(
				"a Node with name %q and status \"Ready\" already exists in the cluster. You must delete the existing Node or change the name of this new joining Node", f.Node),
			"kubectl delete node "+f.Node)
	case !strings.EqualFold(n.UUID, f.Cluster.UUID):
		return fail(fmt.Sprintf("node %s is another machine (systemUUID %s, this one has %s)", f.Node, n.UUID,
			f.Cluster.UUID), "kubectl delete node "+f.Node)
	}
	return finding{text: "node " + f.Node + " is taken over"}
}

func clusterNetwork(f *Facts) finding {
	c := f.Cluster
	if j := f.Joined; j != nil && j.Network != "" && c.Network.Wanted != "" && j.Network != c.Network.Wanted {
		return fail(fmt.Sprintf("this node has the network %s, and cannot change to %s while it has pods", j.Network,
			c.Network.Wanted), "porthole leave, then join again")
	}
	switch {
	case unknown(f) || c.Network.Wanted == none:
		return finding{}
	case c.PodSubnet == "":
		return fail("kubeadm-config has no networking.podSubnet: nodes get no pod range",
			"kubeadm init --pod-network-cidr")
	case c.ServiceSubnet == "":
		return fail("kubeadm-config has no networking.serviceSubnet", "--service-cidr")
	}

	if foreign := c.Network.foreign(c.Network.Wanted, f.System); foreign != "" {
		return fail(fmt.Sprintf("%s; this node would speak %s", foreign, c.Network.Wanted),
			"porthole join --plan says what this node can do")
	}
	if c.Network.Wanted == flannel {
		return finding{}
	}
	if why, do := obstacle(f, c.Network.Wanted); why != "" {
		return fail(fmt.Sprintf("this node cannot have the network %s: %s", c.Network.Wanted, why), do)
	}
	return finding{}
}

func openVSwitch(f *Facts) finding {
	if f.OpenVSwitch == nil {
		return finding{}
	}
	return fail(
		"the mode ovn needs Open vSwitch and ovn-controller on this machine, and its database does not answer: "+
			f.OpenVSwitch.Error(),
		"install and start them (Debian: ovn-host), or name the database with --routes-extra-args=--ovn-db=unix:PATH")
}

func rbac(f *Facts) finding {
	if len(f.Cluster.Forbidden) == 0 {
		return finding{}
	}
	return fail("nodes may not "+strings.Join(f.Cluster.Forbidden, ", "), "porthole manifests | kubectl apply -f -")
}

func pauseImage(f *Facts) finding {
	if f.Windows.PauseImage == "" {
		return finding{}
	}
	return warn(f.Windows.PauseImage, "sandboxImage in NodeConfiguration")
}
