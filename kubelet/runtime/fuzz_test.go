package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// answers is a runtime that answers with these bytes, one after the other. The last one is repeated.
type answers [][]byte

func (a *answers) Invoke(_ context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	data := (*a)[0]
	if len(*a) > 1 {
		*a = (*a)[1:]
	}
	return proto.Unmarshal(data, reply.(proto.Message))
}

func (a *answers) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams")
}

func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// checkRuntime checks what the rest of the kubelet relies on. said is the length of the runtime's own messages.
func checkRuntime(t *testing.T, p *observed.Runtime, said int) {
	t.Helper()
	if p == nil {
		t.Fatal("nothing is known of the pod, without an error")
	}
	for _, c := range p.Containers {
		if !slices.Contains([]observed.ContainerState{observed.Created, observed.Running, observed.Exited}, c.State) {
			t.Fatalf("container %+v is in no state", c)
		}
		if len(c.Message) > said+len(": ")+maxMessageBytes {
			t.Fatalf("the message of a container has %d bytes", len(c.Message))
		}
		for _, at := range []time.Time{c.CreatedAt, c.StartedAt, c.FinishedAt} {
			if !at.IsZero() && !at.After(time.Unix(0, 0)) {
				t.Fatalf("container %+v: %v is before all time", c, at)
			}
		}
	}
}

// FuzzEvent: the kubelet can read any event of the runtime, and messages are not too long.
func FuzzEvent(f *testing.F) {
	f.Add([]byte{}, "2026 stdout F x\n")
	f.Add(encoded(f, &cri.ContainerEventResponse{ContainerId: "c", PodSandboxStatus: &cri.PodSandboxStatus{Id: "s"},
		ContainersStatuses: []*cri.ContainerStatus{{Id: "c",
			Annotations: map[string]string{annRestartCount: "x", annTerminationPath: "/l"}}}}), "")
	f.Add(encoded(f,
		&cri.ContainerEventResponse{ContainersStatuses: []*cri.ContainerStatus{nil,
			{State: cri.ContainerState_CONTAINER_EXITED, ExitCode: 1, CreatedAt: -1,
				Annotations: map[string]string{labelPodUID: "u",
					annTerminationPolicy: string(v1.TerminationMessageFallbackToLogsOnError)}}}}), "x\n\ny")

	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, log string) {
		path := filepath.Join(dir, "log")
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		if text := logTail(path); len(text) > min(maxLogBytes, len(log)+1) {
			t.Errorf("%d bytes of a log of %d", len(text), len(log))
		}

		var m cri.ContainerEventResponse
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		for _, c := range m.ContainersStatuses { // nothing of this machine is read
			c.LogPath = path
			for _, mount := range c.GetMounts() {
				mount.HostPath = path
			}
		}

		e := (&Options{RootDir: dir}).toEvent(&m)
		checkRuntime(t, e.Update, len(data))
		if e.Update.UID != e.UID || len(e.Update.Containers) != len(m.ContainersStatuses) ||
			e.Removed != "" && e.Removed != m.ContainerId {
			t.Fatalf("%+v gives %+v", &m, e)
		}
	})
}

func namesFiles(answer []byte) bool {
	var m cri.ContainerStatusResponse
	return proto.Unmarshal(answer, &m) == nil &&
		(m.GetStatus().GetLogPath() != "" || len(m.GetStatus().GetMounts()) > 0)
}

// FuzzSnapshot: for any answer of the runtime, Snapshot returns an error, or the state of the requested pod and of no
// other object.
func FuzzSnapshot(f *testing.F) {
	labels := map[string]string{labelPodUID: "u"}
	boxes := encoded(f, &cri.ListPodSandboxResponse{Items: []*cri.PodSandbox{{Id: "s", Labels: labels}, {Id: "other"}}})
	list := encoded(f,
		&cri.ListContainersResponse{Containers: []*cri.Container{{Id: "c", PodSandboxId: "s", Labels: labels}}})
	box := encoded(f,
		&cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{Id: "s",
			Network: &cri.PodSandboxNetworkStatus{Ip: "10.0.0.1",
				AdditionalIps: []*cri.PodIP{{Ip: "fd00::1"}}},
			Linux: &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{Options: &cri.NamespaceOption{}}}}})
	full := encoded(f,
		&cri.ContainerStatusResponse{Status: &cri.ContainerStatus{Id: "c", Metadata: &cri.ContainerMetadata{Attempt: 3},
			Image: &cri.ImageSpec{Image: "i"}, Annotations: map[string]string{annResources: `{"limits":{"cpu":"1"}}`},
			User: &cri.ContainerUser{Linux: &cri.LinuxContainerUser{}}}})
	f.Add(boxes, list, box, full)
	f.Add(boxes, list, []byte{}, full)
	f.Add(boxes, list, box, []byte{})
	f.Add(boxes, boxes, boxes, boxes)

	f.Fuzz(func(t *testing.T, boxes, list, box, full []byte) {
		var wanted cri.ListPodSandboxResponse
		if proto.Unmarshal(boxes, &wanted) == nil && len(wanted.Items) > 20 {
			return // each is asked about
		}
		if namesFiles(box) || namesFiles(full) {
			return // nothing of this machine is read
		}

		r := New(&answers{boxes, list, box, full}, Options{})
		got, err := r.Snapshot(context.Background(), "u")
		if err != nil {
			if got != nil {
				t.Fatalf("%v and the error %v", got, err)
			}
			return
		}
		if len(got) != 1 || got["u"] == nil || got["u"].UID != "u" {
			t.Fatalf("asked about one pod, got %v", got)
		}
		checkRuntime(t, got["u"], len(full))
		if len(got["u"].Sandboxes) > len(wanted.Items) {
			t.Fatalf("%d sandboxes of %d", len(got["u"].Sandboxes), len(wanted.Items))
		}
	})
}

// FuzzStats: any statistics of the runtime can be encoded as JSON, and each metric has a kind that the runtime
// described.
func FuzzStats(f *testing.F) {
	n := &cri.UInt64Value{Value: 1 << 63}
	f.Add(encoded(f,
		&cri.ListPodSandboxStatsResponse{
			Stats: []*cri.PodSandboxStats{{Linux: &cri.LinuxPodSandboxStats{Containers: []*cri.ContainerStats{
				{Cpu: &cri.CpuUsage{UsageCoreNanoSeconds: n, Psi: &cri.PsiStats{Full: &cri.PsiData{Avg10: 0.5}}},
					Swap: &cri.SwapUsage{SwapUsageBytes: n}}, {Memory: &cri.MemoryUsage{UsageBytes: n}}},
				Network: &cri.NetworkUsage{DefaultInterface: &cri.NetworkInterfaceUsage{Name: "eth0", RxBytes: n}}}}}}))
	f.Add(encoded(f,
		&cri.ListPodSandboxStatsResponse{
			Stats: []*cri.PodSandboxStats{
				{Windows: &cri.WindowsPodSandboxStats{Containers: []*cri.WindowsContainerStats{{}},
					Cpu: &cri.WindowsCpuUsage{UsageNanoCores: n}}}}}))
	f.Add(encoded(f,
		&cri.ListContainerStatsResponse{
			Stats: []*cri.ContainerStats{{WritableLayer: &cri.FilesystemUsage{UsedBytes: n}}}}))
	f.Add(encoded(f,
		&cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{{Type: cri.RuntimeReady}}},
			RuntimeHandlers: []*cri.RuntimeHandler{{}}}))
	f.Add(encoded(f,
		&cri.ListPodSandboxMetricsResponse{
			PodMetrics: []*cri.PodSandboxMetrics{{Metrics: []*cri.Metric{{Name: "m", Timestamp: 1}}}}}))

	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, conn := context.Background(), &answers{data}
		s := NewStats(conn)
		pods, err1 := s.PodStats(ctx)
		byContainer, err2 := s.byContainer(ctx)
		fs, err3 := s.ImageFs(ctx)
		if (fs == nil) != (err3 != nil) || err1 != nil && pods != nil || err2 != nil && byContainer != nil {
			t.Fatalf("%v %v %v with %v %v %v", pods, byContainer, fs, err1, err2, err3)
		}
		for _, v := range []any{pods, byContainer, fs} {
			if _, err := json.Marshal(v); err != nil {
				t.Fatal(err)
			}
		}

		metrics, _ := s.Metrics(ctx)
		for _, m := range metrics {
			if m.Kind == nil {
				t.Fatalf("metric %+v is of no kind", m)
			}
		}
		r := New(conn, Options{})
		if h, err := r.Health(ctx); err != nil && (h.RuntimeReady || h.NetworkReady) {
			t.Fatalf("ready, with the error %v", err)
		}
	})
}
