package meter

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"google.golang.org/grpc/stats"
)

// handled is a request that names a handler, as CRI's RunPodSandboxRequest does.
type handled struct{}

func (handled) GetRuntimeHandler() string { return "runc" }

func ending(name string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name,
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}}}
}

func limitedTo(memory string, generation int64) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: generation},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	if memory != "" {
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
	}
	return p
}

// lacks reports what a page does not have.
func lacks(t *testing.T, page string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(page, want) {
			t.Errorf("lacks %s", want)
		}
	}
}

// TestParts: what becomes of pods, images, resizes and volumes is counted under upstream's names and labels.
func TestParts(t *testing.T) {
	m := New(Options{})
	l := m.Life()
	l.Began(&v1.Pod{Spec: v1.PodSpec{Containers: make([]v1.Container, 3)}})
	l.StatusWritten(20 * time.Millisecond)
	l.Cgroup("create", time.Millisecond)
	l.CgroupVersion(2)
	for _, reason := range []string{"Evicted", "OutOfcpu", "OutOfexample.com/gpu", "made up"} {
		l.Rejected(reason)
	}
	l.Restarted()
	l.Orphan()
	l.SleepCut()
	l.PlainHook()
	l.Swept(3, 1)
	l.ImageVolumes(2, false)
	l.ImageVolumes(1, true)
	before := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{ending("a", 1), {Name: "b"}}}
	l.Status(before, &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{ending("a", 1), ending("b", 2)},
		InitContainerStatuses: []v1.ContainerStatus{ending("i", 3)}})

	m.Images().Pulled(0, time.Second)
	m.Images().Pulled(20<<20, 7*time.Second)
	m.Images().Pulled(200<<30, time.Hour)
	m.Images().Removed("age")
	m.Images().Ensured("true", "always", "true")
	r := m.Resizes()
	r.Asked(nil, limitedTo("1Mi", 1))
	r.Asked(limitedTo("", 1), limitedTo("1Mi", 2))
	r.Asked(limitedTo("1Mi", 2), limitedTo("2Mi", 3))
	r.Asked(limitedTo("2Mi", 3), limitedTo("2Mi", 4))
	r.Infeasible("windows")
	r.Late("pods_removed")
	r.Done(40*time.Millisecond, false)
	m.VolumeOperation("kubernetes.io/secret", "volume_mount", time.Millisecond, errors.New("x"))
	m.VolumeOperation("kubernetes.io/secret", "overall_volume_mount", 2*time.Second, nil)
	m.Images().Checked("mustAuthenticate")
	m.CountPulls(func() (int, int) { return 1, 7 })
	m.CountVolumes(func() Count { return Count{{"kubernetes.io/secret", "desired_state_of_world"}: 4} },
		func() Count { return Count{{"example.com/s", "fresh"}: 1} })

	c := Calls{m}
	ctx := c.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: "/runtime.v1.RuntimeService/RunPodSandbox"})
	c.HandleRPC(ctx, &stats.OutPayload{Payload: handled{}})
	c.HandleRPC(ctx, &stats.End{BeginTime: time.Now(), EndTime: time.Now().Add(time.Second), Error: errors.New("x")})

	lacks(t, text(t, m.Registry), `kubelet_containers_per_pod_count_bucket{le="2"} 0`,
		`kubelet_containers_per_pod_count_bucket{le="4"} 1`,
		`kubelet_pod_status_sync_duration_seconds_bucket{le="0.01"} 0`,
		`kubelet_pod_status_sync_duration_seconds_bucket{le="0.05"} 1`,
		`kubelet_cgroup_manager_duration_seconds_count{operation_type="create"} 1`, "kubelet_cgroup_version 2",
		`kubelet_admission_rejections_total{reason="Evicted"} 1`,
		`kubelet_admission_rejections_total{reason="OutOfcpu"} 1`,
		`kubelet_admission_rejections_total{reason="OutOfExtendedResources"} 1`,
		`kubelet_admission_rejections_total{reason="Other"} 1`, `kubelet_restarted_pods_total{static=""} 0`,
		`kubelet_restarted_pods_total{static="true"} 1`,
		"kubelet_orphaned_runtime_pods_total 1", "kubelet_sleep_action_terminated_early_total 1",
		"kubelet_lifecycle_handler_http_fallbacks_total 1",
		"kubelet_orphan_pod_cleaned_volumes 3", "kubelet_orphan_pod_cleaned_volumes_errors 1",
		"kubelet_image_volume_requested_total 3",
		"kubelet_image_volume_mounted_succeed_total 2", "kubelet_image_volume_mounted_errors_total 1",
		`kubelet_terminated_containers_total{container_type="container",exit_code="2",reason="Error"} 1`,
		`kubelet_terminated_containers_total{container_type="init_container",exit_code="3",reason="Error"} 1`,
		`kubelet_image_pull_duration_seconds_bucket{image_size_in_bytes="10MB-100MB",le="10"} 1`,
		`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="N/A"} 1`,
		`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="GT100GB"} 1`,
		`kubelet_image_garbage_collected_total{reason="age"} 1`,
		`kubelet_image_manager_ensure_image_requests_total{present_locally="true",pull_policy="always",pull_required="true"} 1`,
		`kubelet_container_requested_resizes_total{operation="add",requirement="limits",resource="memory"} 1`,
		`kubelet_container_requested_resizes_total{operation="increase",requirement="limits",resource="memory"} 1`,
		`kubelet_pod_infeasible_resizes_total{reason_detail="windows"} 1`,
		`kubelet_pod_deferred_accepted_resizes_total{retry_trigger="pods_removed"} 1`,
		`kubelet_pod_resize_duration_milliseconds_bucket{success="true",le="50"} 1`,
		`storage_operation_duration_seconds_count{migrated="false",operation_name="volume_mount",status="fail-unknown",volume_plugin="kubernetes.io/secret"} 1`,
		`volume_operation_total_seconds_bucket{operation_name="overall_volume_mount",plugin_name="kubernetes.io/secret",le="2.5"} 1`,
		`kubelet_imagemanager_image_mustpull_checks_total{result="mustAuthenticate"} 1`,
		"kubelet_imagemanager_ondisk_pullintents 1", "kubelet_imagemanager_ondisk_pulledrecords 7",
		`volume_manager_total_volumes{plugin_name="kubernetes.io/secret",state="desired_state_of_world"} 4`,
		`kubelet_podcertificate_states{signer_name="example.com/s",state="fresh"} 1`,
		`kubelet_run_podsandbox_duration_seconds_count{runtime_handler="runc"} 1`,
		`kubelet_run_podsandbox_errors_total{runtime_handler="runc"} 1`)
	if strings.Contains(text(t, m.Registry), `reason="Error",container_type="container",exit_code="1"`) {
		t.Error("a container that had ended before is counted again")
	}
}

// TestStart: the start of a new node is measured once, that of a kubelet whose node was there not at all.
func TestStart(t *testing.T) {
	m := New(Options{Boot: time.Now().Add(-time.Minute)})
	s := m.Start()
	s.Ready() // of a node that was there
	lacks(t, text(t, m.Registry), "kubelet_node_startup_duration_seconds 0",
		"kubelet_node_startup_pre_kubelet_duration_seconds 0")
	s.Joining()
	s.Joined()
	s.Ready()
	got := text(t, m.Registry)
	lacks(t, got, "kubelet_node_startup_duration_seconds 60", "kubelet_node_startup_pre_kubelet_duration_seconds 60",
		"kubelet_node_startup_registration_duration_seconds ")
	time.Sleep(2 * time.Millisecond)
	s.Joined()
	s.Ready()
	after := text(t, m.Registry)
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "kubelet_node_startup") && !strings.Contains(after, line) {
			t.Errorf("changed: %s", line)
		}
	}
}

// TestCountPods: pods by their source and by what is done with them, and the resizes that wait.
func TestCountPods(t *testing.T) {
	m := New(Options{})
	m.CountPods(func() (all Pods) {
		p := &v1.Pod{Spec: v1.PodSpec{EphemeralContainers: make([]v1.EphemeralContainer, 2)},
			Status: v1.PodStatus{Conditions: []v1.PodCondition{
				{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: "Deferred"},
				{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}}}}
		all.Add(p, Working{Lifecycle: "sync", Config: "desired"})
		all.Add(&v1.Pod{Status: v1.PodStatus{Phase: v1.PodFailed}}, Working{Lifecycle: "terminated", Config: "desired"})
		all.Add(&v1.Pod{}, Working{Lifecycle: "sync", Config: "desired", Static: true})
		all.Add(&v1.Pod{}, Working{Lifecycle: "terminating", Config: "orphan"})
		all.AddOrphan()
		return all
	})
	lacks(t, text(t, m.Registry), `kubelet_desired_pods{static=""} 2`, `kubelet_desired_pods{static="true"} 1`,
		`kubelet_active_pods{static=""} 1`, "kubelet_mirror_pods 1",
		"kubelet_managed_ephemeral_containers 2", `kubelet_pod_pending_resizes{reason="deferred"} 1`,
		"kubelet_pod_in_progress_resizes 1",
		`kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1`,
		`kubelet_working_pods{config="desired",lifecycle="terminated",static=""} 1`,
		`kubelet_working_pods{config="desired",lifecycle="terminating",static="true"} 0`,
		`kubelet_working_pods{config="orphan",lifecycle="terminating",static=""} 1`,
		`kubelet_working_pods{config="runtime_only",lifecycle="terminating",static="unknown"} 1`)
}

// TestFirstNetworkPod: the first pod with a network of its own counts, and later ones do not.
func TestFirstNetworkPod(t *testing.T) {
	m, now := New(Options{}), time.Now()
	start := func(took time.Duration, host bool) {
		m.Running(&v1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-took))},
			Spec: v1.PodSpec{HostNetwork: host}}, now, now, false)
	}
	start(9*time.Second, true)
	start(2*time.Second, false)
	start(4*time.Second, false)
	lacks(t, text(t, m.Registry), "kubelet_first_network_pod_start_sli_duration_seconds 2\n")
}
