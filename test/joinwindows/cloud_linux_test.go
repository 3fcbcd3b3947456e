package joinwindows

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// metadata is where machines of AWS, Azure and Google Cloud ask about themselves.
const metadata = "169.254.169.254"

// TestCloud joins an emulated instance of AWS: it has a route of its own to the metadata service, and the network
// drops what comes from other addresses than the instance's. Join names that check; until it is off the pod answers
// nobody on another node. The metadata service answers the node all the time, also after a reboot.
// Row 1.119.
func TestCloud(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("takes a minute: PORTHOLE_JOIN=20348, or `make test-join`")
	}
	h := instance{newHost(t, "win60", "20348")}
	h.becomesInstance()
	h.answersMetadata("before the join")
	h.checksSource()

	_, line := h.token()
	out, code := h.exe(program, line...)
	if code != 0 || !strings.Contains(out,
		"CloudMetadata: this is an instance of AWS: the source/destination check of this instance must be off → aws ec2 modify-instance-attribute --no-source-dest-check") {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	h.answersMetadata("after the join")
	h.runsPod()
	if err := h.get("http://" + h.podIP() + ":8080/"); err == nil {
		t.Error("the pod answers another node although the network drops its packets")
	}
	h.sourceCheckOff()
	h.podWorks("with the check off")

	h.reboots()
	h.answersMetadata("after the reboot")
}

// instance is an emulated host of a cloud.
type instance struct{ *host }

// becomesInstance gives the host the firmware, the route and the metadata service of an instance of AWS. The launch
// agent of AWS adds the route on Windows.
func (h instance) becomesInstance() {
	h.t.Helper()
	for name, value := range map[string]string{"SystemManufacturer": "Amazon EC2", "SystemProductName": "m5.large"} {
		if out, code := h.exe("reg", "add", `HKLM\HARDWARE\DESCRIPTION\System\BIOS`, "/v", name, "/d", value,
			"/f"); code != 0 {
			h.t.Fatalf("reg add: exit code %d: %s", code, out)
		}
	}
	program, err := os.ReadFile(filepath.Join(bin, "bundle", "images", "windows", "testapp.exe"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.write("porthole/testapp.exe", string(program))
	h.inside("ip", "route", "add", metadata, "via", lab.Router.String(), "dev", "eth0")
	h.router("ip", "addr", "add", metadata+"/32", "dev", "lo")
	h.t.Cleanup(func() { h.router("ip", "addr", "del", metadata+"/32", "dev", "lo") })

	var listener net.Listener
	err = platform.InNetns(platform.NetnsPath(lab.Default.RouterNetns()), func() (err error) {
		listener, err = net.Listen("tcp", metadata+":80")
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "i-0123456789")
	})}
	go func() { _ = server.Serve(listener) }() // until it is closed
	h.t.Cleanup(func() { server.Close() })
}

// router runs a command in the network namespace of the router.
func (h instance) router(args ...string) string {
	h.t.Helper()
	out, err := exec.Command("ip", append([]string{"netns", "exec", lab.Default.RouterNetns()}, args...)...).
		CombinedOutput()
	if err != nil {
		h.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// answersMetadata fails unless the host has its route and the service answers a program on it.
func (h instance) answersMetadata(when string) {
	h.t.Helper()
	if !slices.ContainsFunc(h.routes(),
		func(r string) bool { return strings.HasPrefix(r, metadata+" via "+lab.Router.String()) }) {
		h.t.Errorf("%s: routes %v", when, h.routes())
	}
	wait.NoError(h.t, shortly, when+": an answer of the metadata service", func() error {
		if out, code := h.exe(`C:\porthole\testapp.exe`, "get", "http://"+metadata+"/latest/meta-data/instance-id",
			"5"); code != 0 || !strings.Contains(out, "i-0123456789") {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
}

// checksSource drops at the host's port of the switch what comes from other addresses than the host's, as AWS does by
// default.
func (h instance) checksSource() {
	h.t.Helper()
	at := regexp.MustCompile(`inet (\S+)/`).FindStringSubmatch(h.inside("ip", "-4", "-o", "addr", "show", "eth0"))
	if at == nil {
		h.t.Fatal("the host's card has no address")
	}
	h.router("nft",
		fmt.Sprintf(
			`table netdev cloud { chain source { type filter hook ingress device "%s" priority 0; ip saddr != %s counter drop; }; }`, h.name, at[1]))
}

// sourceCheckOff ends that. Packets must have been dropped.
func (h instance) sourceCheckOff() {
	h.t.Helper()
	if rules := h.router("nft", "list", "table", "netdev", "cloud"); strings.Contains(rules, "packets 0 ") {
		h.t.Errorf("nothing was dropped: %s", rules)
	}
	h.router("nft", "delete", "table", "netdev", "cloud")
}

// runsPod makes the pod and waits until it runs.
func (h instance) runsPod() {
	h.t.Helper()
	applyPod(h.host)
	wait.NoError(h.t, time.Minute, "the pod to run", func() error {
		if h.podIP() == "" {
			return errors.New("it has no address")
		}
		return nil
	})
}

// podIP is the address of the pod when it is ready; "" before.
func (h instance) podIP() string {
	h.t.Helper()
	out, err := h.kubectl("get", "pod", "web-"+h.name, "-o",
		`jsonpath={.status.conditions[?(@.type=="Ready")].status} {.status.podIP}`)
	if err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	ip, _ := strings.CutPrefix(out, "True ")
	if ip == out {
		return ""
	}
	return ip
}
