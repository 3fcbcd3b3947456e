package kubelet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	resources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"porthole.dev/porthole/internal/testkit/deviceplugin"
	"porthole.dev/porthole/internal/testkit/wait"
)

const gadget = "example.com/gadget"

// pluginDir is the variable that makes this test program a device plugin of the folder.
const pluginDir = "PORTHOLE_TEST_DEVICE_PLUGIN"

func init() {
	dir := os.Getenv(pluginDir)
	if dir == "" {
		return
	}
	if err := pluginProcess(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// pluginProcess is a device plugin that lists what each line of its input says, and ends with the input. Its devices
// are /dev/null of the node, and the checkpoint's folder as a mount.
func pluginProcess(dir string) error {
	p := &deviceplugin.Plugin{Resource: gadget, Options: api.DevicePluginOptions{PreStartRequired: true},
		Asked: func(call string) { fmt.Println(call) }}
	p.Answer = func(ids []string) (*api.ContainerAllocateResponse, error) {
		return &api.ContainerAllocateResponse{Envs: map[string]string{"GADGETS": strings.Join(ids, ","),
			"PLAIN": "the plugin's"},
			Mounts:      []*api.Mount{{HostPath: dir, ContainerPath: "/gadgets", ReadOnly: true}},
			Devices:     []*api.DeviceSpec{{HostPath: "/dev/null", ContainerPath: "/dev/gadget", Permissions: "rw"}},
			Annotations: map[string]string{"example.com/gadgets": strings.Join(ids, ",")}}, nil
	}
	if err := p.Serve(context.Background(), dir, fmt.Sprintf("gadget-%d.sock", os.Getpid())); err != nil {
		return err
	}
	fmt.Println("registered")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		p.List(lines.Text())
	}
	return lines.Err()
}

// pluginRun is a device plugin that runs.
type pluginRun struct {
	cmd   *osexec.Cmd
	lists io.WriteCloser
	calls *bufio.Scanner
}

// startPlugin starts a device plugin as a process of its own.
func startPlugin(t *testing.T, w *world) *pluginRun {
	t.Helper()
	p := &pluginRun{cmd: osexec.CommandContext(w.ctx, os.Args[0], "-test.run=^$")}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), pluginDir+"="+w.DevicePlugins(node)), os.Stderr
	var err error
	p.lists, err = p.cmd.StdinPipe()
	must(t, err)
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	p.calls = bufio.NewScanner(out)
	must(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	p.expect(t, "registered")
	return p
}

func (p *pluginRun) list(t *testing.T, devices string) {
	t.Helper()
	_, err := io.WriteString(p.lists, devices+"\n")
	must(t, err)
}

// expect reads the next call.
func (p *pluginRun) expect(t *testing.T, want string) {
	t.Helper()
	if !p.calls.Scan() || p.calls.Text() != want {
		t.Errorf("the plugin was asked %q, want %q", p.calls.Text(), want)
	}
}

// hasGadgets waits until the node's status has so many.
func hasGadgets(t *testing.T, w *world, allocatable, capacity int64) {
	t.Helper()
	must(t, wait.For(w.ctx, 20*time.Second, "the node's devices", func(ctx context.Context) error {
		n, err := w.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		al, c := n.Status.Allocatable[gadget], n.Status.Capacity[gadget]
		if al.Value() != allocatable || c.Value() != capacity {
			return fmt.Errorf("the node has %s of %s, want %d of %d", al.String(), c.String(), allocatable, capacity)
		}
		return nil
	}))
}

// withGadgets makes a pod that asks for devices.
func withGadgets(name string, number int64, args ...string) *v1.Pod {
	p := newPod(name, args...)
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{gadget: *resource.NewQuantity(number, resource.DecimalSI)}
	p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
	return p
}

// testDevices: a device plugin that is a process of its own gives devices to containers. What a pod has outlives the
// kubelet, which is killed, and the plugin.
func testDevices(t *testing.T, w *world) {
	plugin := startPlugin(t, w)
	plugin.list(t, "one two")
	hasGadgets(t, w, 2, 2)

	shows := withGadgets("shows-gadget", 1, "env", "GADGETS", "PLAIN")
	shows.Spec.RestartPolicy = v1.RestartPolicyNever
	shows.Spec.Containers[0].Env = []v1.EnvVar{{Name: "PLAIN", Value: "the pod's"}}
	w.create(t, shows)
	done := w.until(t, 30*time.Second, shows.Name, inPhase(v1.PodSucceeded))
	if out := w.log(t, done, "app"); out != "one\nthe pod's\n" {
		t.Errorf("its environment is\n%s", out)
	}
	plugin.expect(t, "allocate [one]")
	plugin.expect(t, "prestart [one]")

	sees := withGadgets("sees-gadget", 2, "cat", "/gadgets/kubelet_internal_checkpoint", "/dev/gadget")
	sees.Spec.RestartPolicy = v1.RestartPolicyNever
	w.create(t, sees)
	done = w.until(t, 30*time.Second, sees.Name, inPhase(v1.PodSucceeded))
	if out := w.log(t, done, "app"); !strings.Contains(out, string(done.UID)) {
		t.Errorf("the checkpoint, as the pod sees it, does not have the pod: %s", out)
	}
	plugin.expect(t, "allocate [one two]")
	plugin.expect(t, "prestart [one two]")

	w.create(t, withGadgets("holds", 1, "sleep"))
	held := w.until(t, 30*time.Second, "holds", ready)
	plugin.expect(t, "allocate [one]")
	plugin.expect(t, "prestart [one]")
	heldDevices(t, w, "holds", gadget+" [one]")
	w.create(t, withGadgets("greedy", 2, "sleep"))
	refusedDevices(t, w, "greedy",
		"Pod was rejected: Allocate failed due to requested number of devices unavailable for "+gadget+
			". Requested: 2, Available: 1, which is unexpected")

	w.kubelet.Kill()
	w.startKubelet()
	hasGadgets(t, w, 0, 0) // the plugin does not look for the kubelet's socket, it registers at its own start
	plugin = startPlugin(t, w)
	plugin.list(t, "one two! three")
	hasGadgets(t, w, 2, 3)
	shownHealth(t, w, "holds", "{"+gadget+" [{one Healthy <nil>}]}")
	plugin.list(t, "one! two! three")
	shownHealth(t, w, "holds", "{"+gadget+" [{one Unhealthy <nil>}]}")
	plugin.list(t, "one two! three")
	shownHealth(t, w, "holds", "{"+gadget+" [{one Healthy <nil>}]}")
	w.create(t, withGadgets("second", 1, "sleep"))
	w.until(t, 30*time.Second, "second", ready)
	plugin.expect(t, "allocate [three]")
	if again := w.until(t, time.Second, "holds",
		ready); again.Status.ContainerStatuses[0].ContainerID != held.Status.ContainerStatuses[0].ContainerID {
		t.Error("the container of before was replaced")
	}

	must(t, plugin.cmd.Process.Kill())
	hasGadgets(t, w, 0, 3)
	w.create(t, withGadgets("late", 1, "sleep"))
	refusedDevices(t, w, "late",
		"Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "+
			gadget+", which is unexpected")
	for _, name := range []string{shows.Name, sees.Name, "holds", "greedy", "second", "late"} {
		w.remove(t, name, nil)
	}
}

// shownHealth waits until the status of a pod's container shows its devices with their health.
func shownHealth(t *testing.T, w *world, name, want string) {
	t.Helper()
	w.until(t, 10*time.Second, name, func(p *v1.Pod) error {
		if got := fmt.Sprint(p.Status.ContainerStatuses[0].AllocatedResourcesStatus); got != "["+want+"]" {
			return fmt.Errorf("its status shows the devices %s, want [%s]", got, want)
		}
		return nil
	})
}

// heldDevices asks the kubelet's pod-resources API for the devices of a pod's container.
func heldDevices(t *testing.T, w *world, name, want string) {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+filepath.Join(w.KubeletRoot(node), "pod-resources", "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	answer, err := resources.NewPodResourcesListerClient(conn).
		Get(w.ctx, &resources.GetPodResourcesRequest{PodName: name, PodNamespace: namespace})
	must(t, err)
	var got []string
	for _, d := range answer.PodResources.Containers[0].Devices {
		got = append(got, fmt.Sprint(d.ResourceName, " ", d.DeviceIds))
	}
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("pod %s has %s, want %s", name, text, want)
	}
}

// refusedDevices waits until a pod was refused, as upstream's kubelet does when a pod cannot have its devices.
func refusedDevices(t *testing.T, w *world, name, message string) {
	t.Helper()
	p := w.until(t, 30*time.Second, name, inPhase(v1.PodFailed))
	if p.Status.Reason != "UnexpectedAdmissionError" || p.Status.Message != message {
		t.Errorf("pod %s: %s: %s", name, p.Status.Reason, p.Status.Message)
	}
}
