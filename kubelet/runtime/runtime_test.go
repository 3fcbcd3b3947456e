package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// service is a runtime with pods u1, u2 and so on, each with a sandbox and a container. It does not answer about the
// container hang.
type service struct {
	cri.UnimplementedRuntimeServiceServer
	pods   int
	hang   string
	create error // of containers
	start  error
	made   *cri.CreateContainerRequest
}

func labelsOf(i int) map[string]string {
	return map[string]string{labelPodUID: fmt.Sprint("u", i), labelPodName: "p", labelPodNamespace: "ns",
		labelContainerName: "c"}
}

func (s *service) ListPodSandbox(_ context.Context, r *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	out := &cri.ListPodSandboxResponse{Items: []*cri.PodSandbox{{Id: "not-a-pods"}}}
	for i := range s.pods {
		if l := labelsOf(i); r.Filter.LabelSelector == nil || r.Filter.LabelSelector[labelPodUID] == l[labelPodUID] {
			out.Items = append(out.Items, &cri.PodSandbox{Id: fmt.Sprint("s", i), Labels: l})
		}
	}
	return out, nil
}

func (s *service) ListContainers(_ context.Context, r *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	out := &cri.ListContainersResponse{}
	for i := range s.pods {
		if l := labelsOf(i); r.Filter.LabelSelector == nil || r.Filter.LabelSelector[labelPodUID] == l[labelPodUID] {
			out.Containers = append(out.Containers,
				&cri.Container{Id: fmt.Sprint("c", i), PodSandboxId: fmt.Sprint("s", i), Labels: l},
				&cri.Container{Id: fmt.Sprint("gone", i), Labels: l})
		}
	}
	return out, nil
}

func (s *service) PodSandboxStatus(_ context.Context, r *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse,
	error) {
	return &cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{Id: r.PodSandboxId,
		Metadata: &cri.PodSandboxMetadata{},
		Network:  &cri.PodSandboxNetworkStatus{Ip: "10.0.0.1"}}}, nil
}

func (s *service) ContainerStatus(ctx context.Context, r *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse,
	error) {
	if strings.HasPrefix(r.ContainerId, "gone") {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	if r.ContainerId == s.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &cri.ContainerStatusResponse{Status: &cri.ContainerStatus{Id: r.ContainerId,
		Metadata: &cri.ContainerMetadata{Name: "c"},
		State:    cri.ContainerState_CONTAINER_EXITED, ExitCode: 128, Reason: "StartError"}}, nil
}

func (s *service) CreateContainer(_ context.Context, r *cri.CreateContainerRequest) (*cri.CreateContainerResponse,
	error) {
	s.made = r
	return &cri.CreateContainerResponse{ContainerId: "c0"}, s.create
}

func (s *service) StartContainer(context.Context, *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	return &cri.StartContainerResponse{}, s.start
}

func newRuntime(t *testing.T, s *service, o Options) *Runtime {
	t.Helper()
	return runtimeOn(t, o, func(server *grpc.Server) { cri.RegisterRuntimeServiceServer(server, s) })
}

// runtimeOn returns a Runtime that calls the services that register registers.
func runtimeOn(t *testing.T, o Options, register func(*grpc.Server)) *Runtime {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///service", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return New(conn, o)
}

// TestFullCheckOfOneThatHangs: all other pods are found at once, and this one has an error when the time is over.
func TestFullCheckOfOneThatHangs(t *testing.T) {
	r := newRuntime(t, &service{pods: 40, hang: "c7"}, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	found, failed := map[string]*observed.Runtime{}, map[string]error{}
	answers := make(chan struct{}, 40)

	unknown := func(string) *observed.Runtime { return nil }
	uids, err := r.CheckAll(ctx, unknown, func(uid string, p *observed.Runtime, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed[uid] = err
		} else {
			found[uid] = p
		}
		answers <- struct{}{}
	})
	if err != nil || len(uids) != 40 {
		t.Fatalf("%d pods, %v", len(uids), err)
	}

	timeout := time.After(10 * time.Second)
	for range 39 {
		select {
		case <-answers:
		case <-timeout:
			t.Fatalf("after ten seconds there are %d answers", len(found))
		}
	}
	mu.Lock()
	if p := found["u3"]; len(failed) != 0 || p == nil || p.Name != "p" || len(p.Sandboxes) != 1 ||
		len(p.Containers) != 1 || p.Containers[0].SandboxID != "s3" {
		t.Errorf("failed %v, u3 is %+v", failed, p)
	}
	mu.Unlock()

	cancel()
	<-answers
	if mu.Lock(); failed["u7"] == nil {
		t.Error("the one that hangs has no error")
	}
	mu.Unlock()

	one, err := r.Snapshot(context.Background(), "u5")
	if err != nil || len(one) != 1 || len(one["u5"].Containers) != 1 {
		t.Errorf("snapshot of one: %+v, %v", one, err)
	}
	if none, err := r.Snapshot(context.Background(), "nobody"); err != nil || none["nobody"] == nil {
		t.Errorf("snapshot of nobody: %+v, %v", none, err)
	}
}

func TestReasonsOfFailedStarts(t *testing.T) {
	no := false
	for _, c := range []struct {
		name         string
		create       error
		start        error
		spec         *v1.SecurityContext
		reason, text string
	}{
		{"config", nil, nil, &v1.SecurityContext{RunAsNonRoot: new(bool), RunAsUser: new(int64)}, "", ""},
		{"create", status.Error(codes.Unknown, "no room"), nil, nil, "CreateContainerError", "no room"},
		{"start", nil, status.Error(codes.Unknown, "no such file"), nil, "RunContainerError", "no such file"},
		{"well", nil, nil, &v1.SecurityContext{RunAsNonRoot: &no}, "", ""},
	} {
		s := &service{pods: 1, create: c.create, start: c.start}
		r := newRuntime(t, s, Options{PodLogsDir: t.TempDir()})
		if c.name == "config" {
			*c.spec.RunAsNonRoot = true
			c.reason, c.text = "CreateContainerConfigError",
				"container's runAsUser breaks non-root policy (pod: \"p_ns(u)\", container: c)"
		}

		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
		made, err := r.StartContainer(context.Background(), ContainerSpec{Sandbox: SandboxSpec{Pod: p}, SandboxID: "s0",
			Container: &v1.Container{Name: "c", Image: "i", SecurityContext: c.spec}, Attempt: 3, ImageRef: "ref"})
		var step *StepError
		if errors.As(err, &step); (err == nil) != (c.reason == "") ||
			step != nil && (step.Reason != c.reason || step.Error() != c.text) {
			t.Errorf("%s: %v, want %s %q", c.name, err, c.reason, c.text)
		}

		if c.name == "start" && (made.ID != "c0" || made.State != observed.Exited || made.SandboxID != "s0") {
			t.Errorf("%s: container %+v", c.name, made)
		}
		if c.name == "well" {
			cfg := s.made.Config
			if cfg.LogPath != filepath.Join("c", "3.log") || cfg.Annotations[annRestartCount] != "3" ||
				cfg.Metadata.Attempt != 3 ||
				cfg.Labels[labelPodUID] != "u" || cfg.Image.Image != "ref" || cfg.Image.UserSpecifiedImage != "i" {
				t.Errorf("config %+v", cfg)
			}
		}
	}
}

func TestLastWords(t *testing.T) {
	root := t.TempDir()
	dir := messageFolder(t, root)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	line := func(tag, text string) string {
		return "2026-01-01T00:00:00.000000000Z stdout " + tag + " " + text + "\n"
	}

	var many strings.Builder
	for i := range 200 {
		many.WriteString(line("F", fmt.Sprint("line ", i)))
	}
	short, long := file("short.log", line("P", "half ")+line("F", "whole")+"broken\n"), file("long.log",
		line("F", strings.Repeat("x", 5000)+"end"))
	manyLog := file("many.log", many.String())
	said, silent, huge := file("said", "done"), file("silent", ""), file("huge", strings.Repeat("a", 5000)+"b")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(said, link); err != nil {
		t.Fatal(err)
	}

	const fallback = string(v1.TerminationMessageFallbackToLogsOnError)
	for _, c := range []struct {
		name, path, policy, log string
		code                    int32
		runtime                 string
		length                  int
		want                    string // its end
	}{
		{"from the file", said, fallback, short, 1, "", 4, "done"},
		{"after what the runtime says", said, "", short, 1, "OOM", 9, "OOM: done"},
		{"the end of a long file", huge, "", short, 1, "", 4096, "ab"},
		{"empty file, no error: nothing", silent, fallback, short, 0, "", 0, ""},
		{"empty file, error: the log", silent, fallback, short, 1, "", 11, "half whole\n"},
		{"empty file, no fallback: nothing", silent, "File", short, 1, "", 0, ""},
		{"the end of a long line", silent, fallback, long, 1, "", 2048, "xend\n"},
		{"the last 80 lines", silent, fallback, manyLog, 1, "", 80 * 9, "line 199\n"},
		{"no log", silent, fallback, filepath.Join(dir, "absent"), 1, "", 0, ""},
		{"a link in place of the file is not followed", link, "", short, 1, "", 0, ""},
	} {

		got := (&Options{RootDir: root}).
			toContainer(&cri.ContainerStatus{State: cri.ContainerState_CONTAINER_EXITED, ExitCode: c.code,
				LogPath: c.log, Message: c.runtime,
				Mounts: []*cri.Mount{{ContainerPath: "/dev/termination-log", HostPath: c.path}},
				Labels: map[string]string{labelPodUID: "u", labelContainerName: "c"},
				Annotations: map[string]string{annTerminationPath: "/dev/termination-log",
					annTerminationPolicy: c.policy}}).Message
		if len(got) != c.length || !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %d bytes %.60q, want %d that end in %q", c.name, len(got), got, c.length, c.want)
		}
	}
}

// messageFolder makes the folder in which the kubelet makes the files of termination messages of container c of pod u.
func messageFolder(t *testing.T, root string) string {
	t.Helper()
	dir := filepath.Join(append([]string{root}, MessageFolder("u", "c")...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestForeignMessages is the class of CVE-2021-25741: a pod has something else of the node mounted at the path of its
// termination message, or has put a link or a pipe in the way of the kubelet's own file or of its log. The status has
// nothing of it, and nobody waits.
func TestForeignMessages(t *testing.T) {
	secrets := t.TempDir()
	secret := filepath.Join(secrets, "c0ffee00") // named as the kubelet names such files
	if err := os.WriteFile(secret, []byte("SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	secretLog := filepath.Join(secrets, "app", "0.log")
	line := "2026-01-01T00:00:00.000000000Z stdout F SECRET\n"
	if err := errors.Join(os.Mkdir(filepath.Dir(secretLog), 0o755),
		os.WriteFile(secretLog, []byte(line), 0o600)); err != nil {
		t.Fatal(err)
	}

	for name, set := range map[string]func(t *testing.T, root, logs string) (mounted, log string){
		"a volume": func(*testing.T, string, string) (string, string) { return secret, "" },
		"a sub path": func(_ *testing.T, root, _ string) (string, string) {
			return filepath.Join(root, "pods", "u", "volume-subpaths", "e", "c", "0"), ""
		},
		"a path with dots": func(_ *testing.T, root, _ string) (string, string) {
			return filepath.Join(messageFolder(t, root)) + "/../../../../" + secret, ""
		},
		"a link in place of the file": func(t *testing.T, root, _ string) (string, string) {
			file := filepath.Join(messageFolder(t, root), "c0ffee00")
			links(t, secret, file)
			return file, ""
		},
		"a link in place of the folder": func(t *testing.T, root, _ string) (string, string) {
			dir := messageFolder(t, root)
			links(t, secrets, dir)
			return filepath.Join(dir, "c0ffee00"), ""
		},
		"a link in place of the pod": func(t *testing.T, root, _ string) (string, string) {
			dir := messageFolder(t, secrets)
			if err := os.WriteFile(filepath.Join(dir, "c0ffee00"), []byte("SECRET"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(root, "pods"), 0o755); err != nil {
				t.Fatal(err)
			}
			links(t, filepath.Join(secrets, "pods", "u"), filepath.Join(root, "pods", "u"))
			return filepath.Join(messageFolder(t, root), "c0ffee00"), ""
		},
		"a log that is a link": func(t *testing.T, _, logs string) (string, string) {
			return "", linkedLog(t, logs, "pod/app/0.log", secretLog)
		},
		"a folder that is a link": func(t *testing.T, _, logs string) (string, string) {
			return "", linkedLog(t, logs, "pod/app", filepath.Dir(secretLog))
		},
		"a pod's folder, a link": func(t *testing.T, _, logs string) (string, string) {
			return "", linkedLog(t, logs, "pod", secrets)
		},
		"a log that never ends": func(t *testing.T, _, logs string) (string, string) {
			return "", linkedLog(t, logs, "pod/app/0.log", "/dev/zero")
		},
		"a log that is none of CRI": func(t *testing.T, _, logs string) (string, string) {
			return "", foreignLog(t, logs)
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, logs := t.TempDir(), t.TempDir()
			mounted, log := set(t, root, logs)
			got := make(chan string, 1)
			go func() {
				got <- (&Options{RootDir: root}).
					toContainer(&cri.ContainerStatus{State: cri.ContainerState_CONTAINER_EXITED, ExitCode: 1,
						LogPath: log,
						Mounts:  []*cri.Mount{{ContainerPath: "/t", HostPath: mounted}},
						Labels:  map[string]string{labelPodUID: "u", labelContainerName: "c"},
						Annotations: map[string]string{annTerminationPath: "/t",
							annTerminationPolicy: string(v1.TerminationMessageFallbackToLogsOnError)}}).Message
			}()
			select {
			case text := <-got:
				if text != "" {
					t.Errorf("the status has %q", text)
				}
			case <-time.After(30 * time.Second):
				t.Error("it is still being read")
			}
		})
	}
}

// links makes a link and removes what is in its place.
func links(t *testing.T, target, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no links here:", err)
	}
}

// linkedLog makes a link at an element of the path of the log pod/app/0.log, and returns the log's path.
func linkedLog(t *testing.T, logs, at, target string) string {
	t.Helper()
	name := filepath.Join(logs, filepath.FromSlash(at))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	links(t, target, name)
	return filepath.Join(logs, "pod", "app", "0.log")
}

// foreignLog writes a text that is no log of CRI: the lines of a shadow file, and of a log in another form.
func foreignLog(t *testing.T, logs string) string {
	t.Helper()
	path := filepath.Join(logs, "pod", "app", "0.log")
	text :=
		"root:x:0:0 a b c\none two F SECRET\n2026-01-01T00:00:00Z stdout SECRET x\n2026-01-01T00:00:00Z disk F SECRET\n"
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWindowsExitCodes: exit codes of Windows have 32 bits without a sign, those of CRI and of the API have one. None
// is cut or made positive, so that a podFailurePolicy can name them.
func TestWindowsExitCodes(t *testing.T) {
	for code, want := range map[uint32]int32{0xc000013a: -1073741510, 0xc0000005: -1073741819, 0xffffffff: -1, 300: 300,
		0x80000000: -2147483648, 0x7fffffff: 2147483647} {
		got := new(Options).toContainer(&cri.ContainerStatus{State: cri.ContainerState_CONTAINER_EXITED,
			ExitCode: int32(code)})
		if got.ExitCode != want {
			t.Errorf("%#x: %d, want %d", code, got.ExitCode, want)
		}
	}
}

// TestRestored: what a container's annotations keep for its end is what was written; broken annotations are none.
func TestRestored(t *testing.T) {
	c := &v1.Container{Name: "app", Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		Lifecycle: &v1.Lifecycle{
			PreStop: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: "/bye", Port: intstr.FromString("http")}}}}
	kept := containerAnnotations(&v1.Pod{}, c, 0)
	labels := map[string]string{labelContainerName: "app"}
	if got := new(Options).toContainer(&cri.ContainerStatus{Labels: labels,
		Annotations: kept}).Restored; !equality.Semantic.DeepEqual(got, c) {
		t.Errorf("restored %+v, want %+v", got, c)
	}

	kept[annPorts] = "{"
	if got := new(Options).toContainer(&cri.ContainerStatus{Labels: labels, Annotations: kept}).Restored; got == nil ||
		got.Ports != nil || got.Lifecycle.PreStop.HTTPGet.Path != "/bye" {
		t.Errorf("with broken ports: %+v", got)
	}
	for _, text := range []string{"", "{", "7"} {
		kept[annPreStop] = text
		if got := new(Options).toContainer(&cri.ContainerStatus{Labels: labels,
			Annotations: kept}).Restored; got != nil {
			t.Errorf("hook %q: %+v", text, got)
		}
	}
}

func sandboxOf(t *testing.T, o Options, s SandboxSpec) *cri.PodSandboxConfig {
	t.Helper()
	cfg, err := o.sandboxConfig(s)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestSandboxConfig(t *testing.T) {
	user, group, fs := int64(1000), int64(2000), int64(3000)
	yes := true
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u",
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"x": "y"}},
		Spec: v1.PodSpec{ShareProcessNamespace: &yes,
			Containers: []v1.Container{{Name: "c",
				Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080, HostIP: "1.2.3.4",
					Protocol: v1.ProtocolUDP}}}},
			SecurityContext: &v1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &group, FSGroup: &fs,
				SupplementalGroups: []int64{7},
				Sysctls:            []v1.Sysctl{{Name: "net/ipv4.x", Value: "1"}}}}}

	r := New(nil, Options{PodLogsDir: "/logs"})
	cfg := sandboxOf(t, r.o, SandboxSpec{Pod: p, Attempt: 2, Hostname: "h", CgroupParent: "/g", Groups: []int64{9}})
	sec := cfg.Linux.SecurityContext
	m := cfg.PortMappings[0]
	for what, ok := range map[string]bool{
		"names": cfg.Metadata.Uid == "u" && cfg.Metadata.Attempt == 2 && cfg.Labels["a"] == "b" &&
			cfg.Labels[labelPodName] == "p" && cfg.Annotations["x"] == "y",
		"host name": cfg.Hostname == "h",
		"logs":      cfg.LogDirectory == filepath.Join("/logs", "ns_p_u"),
		"cgroup":    cfg.Linux.CgroupParent == "/g",
		"sysctl":    cfg.Linux.Sysctls["net.ipv4.x"] == "1",
		"port": m.HostIp == "1.2.3.4" && m.HostPort == 8080 && m.ContainerPort == 80 &&
			m.Protocol == cri.Protocol_UDP,
		"user": sec.RunAsUser.Value == 1000 && sec.RunAsGroup.Value == 2000 &&
			fmt.Sprint(sec.SupplementalGroups) == "[3000 7 9]",
		"namespaces": sec.NamespaceOptions.Pid == cri.NamespaceMode_POD &&
			sec.NamespaceOptions.Network == cri.NamespaceMode_POD,
		"seccomp": sec.Seccomp.ProfileType == cri.SecurityProfile_RuntimeDefault,
		"windows": cfg.Windows == nil,
		"plain":   !sec.Privileged,
	} {
		if !ok {
			t.Errorf("%s: %+v", what, cfg)
		}
	}

	p.Spec.InitContainers = []v1.Container{{Name: "i", SecurityContext: &v1.SecurityContext{Privileged: &yes}}}
	if sec := sandboxOf(t, r.o, SandboxSpec{Pod: p}).Linux.SecurityContext; !sec.Privileged {
		t.Errorf("a privileged init container: %+v", sec)
	}

	name := "ContainerUser"
	p.Spec.HostNetwork = true
	p.Spec.SecurityContext.WindowsOptions = &v1.WindowsSecurityContextOptions{RunAsUserName: &name, HostProcess: &yes}
	if w := sandboxOf(t, Options{Windows: true},
		SandboxSpec{Pod: p}).Windows; w.SecurityContext.RunAsUsername != name || !w.SecurityContext.HostProcess {
		t.Errorf("windows: %+v", w)
	}
}

// TestGroupsOfVolumes: a container has the groups of its pod's volumes, whether the pod says anything of its users or
// not.
func TestGroupsOfVolumes(t *testing.T) {
	for want, sc := range map[string]*v1.PodSecurityContext{"[9]": nil, "[7 9]": {SupplementalGroups: []int64{7}}} {
		p := &v1.Pod{Spec: v1.PodSpec{SecurityContext: sc, Containers: []v1.Container{{Name: "c"}}}}
		cfg, err := Options{}.containerConfig(ContainerSpec{Sandbox: SandboxSpec{Pod: p, Groups: []int64{9}},
			Container: &p.Spec.Containers[0]})
		if err != nil || fmt.Sprint(cfg.Linux.SecurityContext.SupplementalGroups) != want {
			t.Errorf("%v, %v, want groups %s", cfg, err, want)
		}
	}
}

// TestStrictGroups: the runtime is told of groups that the image gives the user whether to add them.
func TestStrictGroups(t *testing.T) {
	strict, merge := v1.SupplementalGroupsPolicyStrict, v1.SupplementalGroupsPolicyMerge
	for _, c := range []struct {
		asked *v1.SupplementalGroupsPolicy
		want  cri.SupplementalGroupsPolicy
	}{
		{nil, cri.SupplementalGroupsPolicy_Merge},
		{&merge, cri.SupplementalGroupsPolicy_Merge},
		{&strict, cri.SupplementalGroupsPolicy_Strict},
	} {
		p := &v1.Pod{Spec: v1.PodSpec{SecurityContext: &v1.PodSecurityContext{SupplementalGroupsPolicy: c.asked},
			Containers: []v1.Container{{Name: "c"}}}}
		if got := sandboxOf(t, Options{},
			SandboxSpec{Pod: p}).Linux.SecurityContext.SupplementalGroupsPolicy; got != c.want {
			t.Errorf("sandbox: %v, want %v", got, c.want)
		}
		cfg, err := Options{}.containerConfig(ContainerSpec{Sandbox: SandboxSpec{Pod: p},
			Container: &p.Spec.Containers[0]})
		if err != nil || cfg.Linux.SecurityContext.SupplementalGroupsPolicy != c.want {
			t.Errorf("container: %v, %v, want %v", cfg, err, c.want)
		}
	}
}

// TestSandboxResources: the runtime gets the size of a pod, and the ports of its sidecars.
func TestSandboxResources(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	quantities := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	need := v1.ResourceRequirements{Requests: quantities("500m", "64Mi"), Limits: quantities("1", "128Mi")}
	need.Limits["hugepages-2Mi"] = resource.MustParse("4Mi")
	p := &v1.Pod{Spec: v1.PodSpec{Overhead: quantities("250m", "16Mi"),
		InitContainers: []v1.Container{{Name: "once", Ports: []v1.ContainerPort{{HostPort: 1}}},
			{Name: "along", RestartPolicy: &always, Resources: need, Ports: []v1.ContainerPort{{HostPort: 2}}}},
		Containers: []v1.Container{{Name: "app", Resources: need, Ports: []v1.ContainerPort{{HostPort: 3}}}}}}

	r := New(nil, Options{CFSQuota: true})
	cfg := sandboxOf(t, r.o, SandboxSpec{Pod: p})
	if len(cfg.PortMappings) != 2 || cfg.PortMappings[0].HostPort != 2 || cfg.PortMappings[1].HostPort != 3 {
		t.Errorf("ports: %v", cfg.PortMappings)
	}
	if got := cfg.Linux.Resources; got.CpuShares != 1024 || got.CpuQuota != 200000 || got.CpuPeriod != 100000 ||
		got.MemoryLimitInBytes != 256<<20 {
		t.Errorf("resources: %v", got)
	}
	if got := cfg.Linux.Overhead; got.CpuShares != 256 || got.CpuQuota != 25000 || got.MemoryLimitInBytes != 16<<20 {
		t.Errorf("overhead: %v", got)
	}
	if got := r.o.linuxResources(p, &p.Spec.Containers[0]).HugepageLimits; len(got) != 1 || got[0].PageSize != "2MB" ||
		got[0].Limit != 4<<20 {
		t.Errorf("huge pages: %v", got)
	}
	alone, err := r.o.containerConfig(ContainerSpec{Sandbox: SandboxSpec{Pod: p}, Container: &p.Spec.Containers[0],
		CPUs: "1-2", Mems: "0", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := alone.Linux.Resources; got.CpusetCpus != "1-2" || got.CpusetMems != "0" || got.CpuQuota != -1 {
		t.Errorf("with processors alone: %v", got)
	}
}

// TestProfiles: the profiles of a container are its own, else the pod's, else the node's default.
func TestProfiles(t *testing.T) {
	file, own := "audit.json", "own"
	yes := true
	seccomp := func(kind v1.SeccompProfileType) *v1.SeccompProfile {
		return &v1.SeccompProfile{Type: kind, LocalhostProfile: &file}
	}
	profile := func(kind cri.SecurityProfile_ProfileType, ref string) string { return fmt.Sprint(kind, " ", ref) }
	none, byDefault := profile(cri.SecurityProfile_Unconfined, ""), profile(cri.SecurityProfile_RuntimeDefault, "")

	for _, c := range []struct {
		name              string
		pod               v1.PodSecurityContext
		own               v1.SecurityContext
		node              bool // seccompDefault
		seccomp, appArmor string
	}{
		{"nothing", v1.PodSecurityContext{}, v1.SecurityContext{}, false, none, ""},
		{"the node's default", v1.PodSecurityContext{}, v1.SecurityContext{}, true, byDefault, ""},
		{"privileged", v1.PodSecurityContext{}, v1.SecurityContext{Privileged: &yes}, true, none, ""},
		{"unconfined", v1.PodSecurityContext{SeccompProfile: seccomp(v1.SeccompProfileTypeUnconfined)},
			v1.SecurityContext{}, true, none, ""},
		{"a file of the node", v1.PodSecurityContext{},
			v1.SecurityContext{SeccompProfile: seccomp(v1.SeccompProfileTypeLocalhost)}, false,
			profile(cri.SecurityProfile_Localhost, filepath.Join("/root", "seccomp", "audit.json")), ""},
		{"own before the pod's", v1.PodSecurityContext{SeccompProfile: seccomp(v1.SeccompProfileTypeUnconfined),
			AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}},
			v1.SecurityContext{SeccompProfile: seccomp(v1.SeccompProfileTypeRuntimeDefault),
				AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &own}},
			false,
			byDefault, profile(cri.SecurityProfile_Localhost, "own")},
		{"the pod's",
			v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}},
			v1.SecurityContext{}, false, none, none},
	} {
		c.pod.SELinuxOptions = &v1.SELinuxOptions{Level: "s0:c1"}
		p := &v1.Pod{Spec: v1.PodSpec{SecurityContext: &c.pod,
			Containers: []v1.Container{{Name: "c", SecurityContext: &c.own}}}}
		r := New(nil, Options{SeccompRoot: filepath.Join("/root", "seccomp"), SeccompDefault: c.node})
		sec := r.o.linuxSecurity(p, &p.Spec.Containers[0], ContainerSpec{Sandbox: SandboxSpec{Pod: p}})
		appArmor := ""
		if sec.Apparmor != nil {
			appArmor = profile(sec.Apparmor.ProfileType, sec.Apparmor.LocalhostRef)
		}
		if got := profile(sec.Seccomp.ProfileType, sec.Seccomp.LocalhostRef); got != c.seccomp ||
			appArmor != c.appArmor || sec.SelinuxOptions.GetLevel() != "s0:c1" {
			t.Errorf("%s: seccomp %s, AppArmor %s, SELinux %v, want %s and %s", c.name, got, appArmor,
				sec.SelinuxOptions, c.seccomp, c.appArmor)
		}
		if box := sandboxOf(t, r.o,
			SandboxSpec{Pod: p}).Linux.SecurityContext; box.SelinuxOptions.GetLevel() != "s0:c1" {
			t.Errorf("%s: SELinux of the sandbox %v", c.name, box.SelinuxOptions)
		}
	}
}

// TestLimitsOfThePod: a container without a limit of its own gets that of spec.resources of its pod. Its oom_score_adj
// takes into account what spec.resources requests beyond the requests of the containers. The expected values come from
// upstream's formula.
func TestLimitsOfThePod(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	always := v1.ContainerRestartPolicyAlways
	p := &v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable}, Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "side", RestartPolicy: &always}},
		Containers: []v1.Container{{Name: "plain"},
			{Name: "own", Resources: v1.ResourceRequirements{Limits: list("100m", "16Mi"),
				Requests: list("50m", "10Mi")}}},
		Resources: &v1.ResourceRequirements{Limits: list("200m", "64Mi"), Requests: list("50m", "40Mi")}}}
	p.Spec.Resources.Limits["hugepages-2Mi"] = resource.MustParse("4Mi")
	o := Options{CFSQuota: true, MemoryBytes: 100 << 20}

	for _, c := range []struct {
		c    *v1.Container
		want string
	}{
		{&p.Spec.Containers[0], "quota 20000 shares 204 memory 67108864 score 900 pages 4194304"},
		{&p.Spec.Containers[1], "quota 10000 shares 51 memory 16777216 score 800 pages 4194304"},
		{&p.Spec.InitContainers[0], "quota 20000 shares 204 memory 67108864 score 900 pages 4194304"},
	} {
		r := o.linuxResources(p, c.c)
		if got := fmt.Sprintf("quota %d shares %d memory %d score %d pages %d", r.CpuQuota, r.CpuShares,
			r.MemoryLimitInBytes, r.OomScoreAdj, r.HugepageLimits[0].Limit); got != c.want {
			t.Errorf("%s: %s, want %s", c.c.Name, got, c.want)
		}
	}
	p.Spec.Containers = p.Spec.Containers[1:]
	p.Spec.Resources = nil
	if r := o.linuxResources(p, &p.Spec.InitContainers[0]); r.OomScoreAdj != 900 || r.MemoryLimitInBytes != 0 {
		t.Errorf(
			"a sidecar has the score %d and %d bytes, want that of the container that it serves, 900, and no limit",
			r.OomScoreAdj, r.MemoryLimitInBytes)
	}
}
