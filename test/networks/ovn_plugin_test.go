package networks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
)

// seedConf is the configuration of the Kubernetes 1.9 guide for Windows nodes, byte for byte, with a range in the
// place that the guide leaves for it.
const seedConf = `{
    "name": "net",
    "type": "ovn_cni.exe",
    "bridge": "br-int",
    "isGateway": "true",
    "ipMasq": "false",
    "ipam": {
         "type": "host-local",
         "subnet": "%s"
         }
}`

// sandbox is a sandbox that the runtime of win01 does not know: a network namespace for which HNS has an id.
type sandbox struct {
	*fleet
	space *netspace.Space
	id    string // of the namespace in HNS
}

// newSandbox makes the sandbox of the pod "seed" of win01. The kubelet is frozen, so that it makes none.
func (f *fleet) newSandbox() sandbox {
	f.t.Helper()
	s := sandbox{fleet: f, space: netspace.New(f.t, "seed")}
	var bound struct{ ID string }
	ctx, cancel := context.WithTimeout(f.t.Context(), shortly)
	defer cancel()
	if err := control.Host(filepath.Join(dir, "hosts", "win01")).
		Call(ctx, "POST", "/netns", map[string]string{"path": s.space.Path}, &bound); err != nil {
		f.t.Fatal(err)
	}
	s.id = bound.ID

	f.apply(
		"apiVersion: v1\nkind: Pod\nmetadata: {name: seed}\nspec: {nodeName: win01, terminationGracePeriodSeconds: 0, containers: [{name: none, image: \"porthole/testapp:1\"}]}\n")
	wait.NoError(f.t, 20*time.Second, "the address of pod seed", func() error {
		var p v1.Pod
		if err := get(&p, "pod", "seed"); err != nil {
			return err
		}
		if p.Annotations["ovn"] == "" {
			return fmt.Errorf("no annotation: %v", p.Annotations)
		}
		return nil
	})
	return s
}

// cni runs ovn_cni.exe on win01 as a runtime does, and returns its output.
func (s sandbox) cni(verb, conf string) (string, error) {
	s.t.Helper()
	args := []string{"host", "run", "--dir", dir, "win01"}
	for _, v := range []string{"CNI_COMMAND=" + verb, "CNI_CONTAINERID=seed", "CNI_NETNS=" + s.id, "CNI_IFNAME=eth0",
		`CNI_PATH=C:\none`,
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=seed"} {
		args = append(args, "-e", v)
	}
	program := filepath.Join(filepath.Dir(porthole), "windows", "ovn_cni.exe")
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, porthole, append(args, "--", program)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = strings.NewReader(conf), &out, &errs, time.Second
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("ovn_cni.exe %s: %w: %s%s", verb, err, errs.String(), out.String())
	}
	return out.String(), nil
}

// does runs a verb, which must succeed if want is "", and else fail with a text that has want.
func (s sandbox) does(verb, conf, want string) string {
	s.t.Helper()
	out, err := s.cni(verb, conf)
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		s.t.Errorf("%s: %v, want %q", verb, err, want)
	}
	return out
}

var sandboxID = regexp.MustCompile(`sandbox="?([0-9a-z]+)`)

// attached returns the ids of the sandboxes that have ports in win01's Open vSwitch, in order.
func (s sandbox) attached() (ids []string) {
	s.t.Helper()
	out, err := command(shortly, "ovs-vsctl", "--db=unix:"+filepath.Join(dir, "hosts/win01/openvswitch/db.sock"),
		"--no-wait", "--columns=external_ids", "list", "Interface")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range sandboxID.FindAllStringSubmatch(out, -1) {
		ids = append(ids, m[1])
	}
	slices.Sort(ids)
	return ids
}

// checkPlugin runs every verb of ovn_cni.exe on an emulated host with the first published configuration.
func (f *fleet) checkPlugin() {
	f.t.Helper()
	thaw := (pathCheck{f}).freeze("win01/kubelet")
	defer func() {
		if _, err := kubectl("delete", "pod", "seed", "--grace-period=0", "--force"); err != nil {
			f.t.Error(err)
		}
		thaw()
	}()
	s := f.newSandbox()
	seed := fmt.Sprintf(seedConf, f.podRange("win01"))
	// the seed has none, which means 0.2.0, and that has no CHECK, GC or STATUS
	newer := strings.Replace(seed, "{", `{"cniVersion": "1.1.0",`, 1)

	if out := s.does("VERSION", seed, ""); !strings.Contains(out, `"0.2.0"`) || !strings.Contains(out, `"1.1.0"`) {
		f.t.Errorf("VERSION: %s", out)
	}
	s.does("CHECK", seed, "does not allow CHECK")
	s.does("STATUS", newer, "")
	s.does("STATUS", strings.Replace(newer, "br-int", "br-none", 1), "bridge br-none is not in Open vSwitch")
	s.does("CHECK", newer, "has no port")
	before := s.attached()
	for range 2 { // the kubelet of that time called it for every container
		var result struct{ IP4 struct{ IP string } }
		out := s.does("ADD", seed, "")
		if err := json.Unmarshal([]byte(out), &result); err != nil {
			f.t.Fatalf("ADD: %v: %s", err, out)
		}
		if at, err := netip.ParsePrefix(result.IP4.IP); err != nil || at.Masked().String() != f.podRange("win01") {
			f.t.Errorf("ADD: address %s, %v", result.IP4.IP, err)
		}
		wait.NoError(f.t, 10*time.Second, "packets of pod seed",
			func() error { return ping(s.space.Path, f.addr["a-lin01"], probe{}).err() })
	}
	s.does("CHECK", newer, "")
	for range 2 {
		s.does("DEL", seed, "")
	}
	if now := s.attached(); !slices.Equal(now, before) {
		f.t.Errorf("after DEL the sandboxes %v have ports, want %v", now, before)
	}

	s.does("ADD", seed, "")
	var valid []string
	for _, id := range before {
		valid = append(valid, fmt.Sprintf(`{"containerID": %q, "ifname": "eth0"}`, id))
	}
	s.does("GC", strings.Replace(newer, "{", `{"cni.dev/valid-attachments": [`+strings.Join(valid, ", ")+`],`, 1), "")
	if now := s.attached(); !slices.Equal(now, before) {
		f.t.Errorf("after GC the sandboxes %v have ports, want %v", now, before)
	}
	wait.NoError(f.t, 10*time.Second, "packets of other pods",
		func() error { return ping(f.netns["a-win01"], f.addr["a-lin01"], probe{}).err() })
}
