package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// Snapshot reads what the runtime has of one pod. The result always has an entry for uid. An error means that this is
// unknown, not that there is nothing.
func (r *Runtime) Snapshot(ctx context.Context, uid string) (map[string]*observed.Runtime, error) {
	ctx, cancel := r.short(ctx)
	defer cancel()
	listed, err := r.list(ctx, map[string]string{labelPodUID: uid})
	if err != nil {
		return nil, err
	}
	l := listed[uid]
	if l == nil {
		return map[string]*observed.Runtime{uid: {UID: uid}}, nil
	}
	p, err := r.details(ctx, l, nil)
	if err != nil {
		return nil, err
	}
	return map[string]*observed.Runtime{uid: p}, nil
}

// checkers is how many pods a full check reads at the same time.
const checkers = 16

// CheckAll reads what the runtime has of all pods. It lists them and returns their UIDs. It calls found for each pod
// as soon as its details are read: from other goroutines, and also after CheckAll has returned. A pod about which the
// runtime does not answer delays no other; its found has an error. known returns what the caller knows about a pod
// already, or nil: objects that the list shows in the known state are not read again.
func (r *Runtime) CheckAll(ctx context.Context, known func(uid string) *observed.Runtime,
	found func(uid string, p *observed.Runtime, err error)) ([]string, error) {
	short, cancel := r.short(ctx)
	defer cancel()
	listed, err := r.list(short, nil)
	if err != nil {
		return nil, err
	}

	slots := make(chan struct{}, checkers)
	var uids []string
	for uid, l := range listed {
		uids = append(uids, uid)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, fullCheckTimeout)
			defer cancel()
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-time.After(slotWait): // the calls of other pods hang: go on without a slot
			}
			p, err := r.details(ctx, l, known(uid))
			found(uid, p, err)
		}()
	}
	return uids, nil
}

// How long a full check waits for the details of one pod, and for a slot.
const (
	fullCheckTimeout = 30 * time.Second
	slotWait         = time.Second
)

// listing is what the lists contain of one pod.
type listing struct {
	pod        *observed.Runtime
	sandboxes  []*cri.PodSandbox
	containers []*cri.Container
}

// list returns the sandboxes and containers in the runtime that carry these labels, by the UID of their pod; a nil
// selector selects all. Sandboxes are listed first. A container that was created between the two calls may therefore
// be listed without its sandbox.
func (r *Runtime) list(ctx context.Context, selector map[string]string) (map[string]*listing, error) {
	boxes, err := r.client.ListPodSandbox(ctx,
		&cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{LabelSelector: selector}})
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	list, err := r.client.ListContainers(ctx,
		&cri.ListContainersRequest{Filter: &cri.ContainerFilter{LabelSelector: selector}})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}

	all := map[string]*listing{}
	for _, b := range boxes.Items {
		if l := place(all, b.Labels); l != nil {
			l.sandboxes = append(l.sandboxes, b)
		}
	}
	for _, c := range list.Containers {
		if l := place(all, c.Labels); l != nil {
			l.containers = append(l.containers, c)
		}
	}
	return all, nil
}

// place finds or creates the entry of the pod that labels name. It returns nil if the object belongs to no pod.
func place(all map[string]*listing, labels map[string]string) *listing {
	uid := labels[labelPodUID]
	if uid == "" {
		return nil
	}
	l := all[uid]
	if l == nil {
		l = &listing{pod: &observed.Runtime{UID: uid, Name: labels[labelPodName], Namespace: labels[labelPodNamespace]}}
		all[uid] = l
	}
	return l
}

// details reads the status of each object of a pod, except for those that are in the known state. It leaves out
// objects that were removed meanwhile.
func (r *Runtime) details(ctx context.Context, l *listing, known *observed.Runtime) (*observed.Runtime, error) {
	if known == nil {
		known = &observed.Runtime{}
	}

	// A sandbox that is known and unchanged is not asked for again; one without an address may have
	// got one.
	for _, b := range l.sandboxes {
		same := func(k observed.Sandbox) bool {
			return k.ID == b.Id && k.Ready == (b.State == cri.PodSandboxState_SANDBOX_READY) &&
				(len(k.IPs) > 0 || k.HostNetwork)
		}
		if i := slices.IndexFunc(known.Sandboxes, same); i >= 0 {
			l.pod.Sandboxes = append(l.pod.Sandboxes, known.Sandboxes[i])
			continue
		}
		full, err := r.sandbox(ctx, b.Id)
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		l.pod.Sandboxes = append(l.pod.Sandboxes, full)
	}

	// A container in the same state has the same details, unless its image was not known.
	for _, c := range l.containers {
		if k, ok := known.Find(c.Id); ok && k.State == stateOf(c.State) && k.ImageID != "" {
			l.pod.Containers = append(l.pod.Containers, k)
			continue
		}
		full, err := r.container(ctx, c.Id)
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		full.SandboxID = c.PodSandboxId
		l.pod.Containers = append(l.pod.Containers, full)
	}
	return l.pod, nil
}

// toSandbox translates a status. HostNetwork is false if the runtime does not tell namespaces.
func toSandbox(s *cri.PodSandboxStatus) observed.Sandbox {
	box := observed.Sandbox{ID: s.Id, Attempt: s.GetMetadata().GetAttempt(),
		Ready:     s.State == cri.PodSandboxState_SANDBOX_READY,
		CreatedAt: time.Unix(0, s.CreatedAt), Handler: s.RuntimeHandler}
	box.HostNetwork = s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == cri.NamespaceMode_NODE &&
		s.GetLinux().GetNamespaces().GetOptions() != nil
	if ip := s.GetNetwork().GetIp(); ip != "" {
		box.IPs = append(box.IPs, ip)
	}
	for _, x := range s.GetNetwork().GetAdditionalIps() {
		box.IPs = append(box.IPs, x.Ip)
	}
	return box
}

// toContainer translates a container's status. Some runtimes do not give the attempt or the image as the pod names
// them, so the annotations and the image's own name are used instead. The message of a container that has exited
// includes its termination message.
func (o *Options) toContainer(c *cri.ContainerStatus) observed.Container {
	out := observed.Container{ID: c.Id, Name: c.Labels[labelContainerName], Attempt: c.GetMetadata().GetAttempt(),
		Hash: c.Annotations[annHash], Image: c.GetImage().GetUserSpecifiedImage(), ImageID: c.ImageRef,
		ExitCode: c.ExitCode,
		Reason:   c.Reason, Message: c.Message, LogPath: c.LogPath,
		CreatedAt: at(c.CreatedAt), StartedAt: at(c.StartedAt), FinishedAt: at(c.FinishedAt)}
	if out.Image == "" {
		out.Image = c.GetImage().GetImage()
	}

	if n, err := strconv.ParseUint(c.Annotations[annRestartCount], 10, 32); err == nil {
		out.Attempt = uint32(n)
	}
	if reset, err := time.Parse(time.RFC3339Nano, c.Annotations[annReset]); err == nil {
		out.Reset = &reset
	}
	if l := c.GetUser().GetLinux(); l != nil {
		out.User = &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: l.Uid, GID: l.Gid,
			SupplementalGroups: l.SupplementalGroups}}
	}

	out.MadeWith, out.MadeIn, out.Given, out.Restored = madeWith(c), madeIn(c), given(c), restored(c)
	if out.State = stateOf(c.State); out.State == observed.Exited {
		if m := o.terminationMessage(c); m != "" {
			if out.Message != "" {
				out.Message += ": "
			}
			out.Message += m
		}
		if out.StartedAt.IsZero() && out.FinishedAt.IsZero() { // it never started; its end is used to order instances
			out.FinishedAt = out.CreatedAt
		}
	}
	return out
}

// restored returns what the annotations keep of a container's spec for its end, or nil if it has no preStop hook.
func restored(c *cri.ContainerStatus) *v1.Container {
	var hook v1.LifecycleHandler
	if text := c.Annotations[annPreStop]; text == "" || json.Unmarshal([]byte(text), &hook) != nil {
		return nil
	}
	out := &v1.Container{Name: c.Labels[labelContainerName], Lifecycle: &v1.Lifecycle{PreStop: &hook}}
	if json.Unmarshal([]byte(c.Annotations[annPorts]), &out.Ports) != nil {
		out.Ports = nil // the hook may do without
	}
	return out
}

// stateOf takes an unknown state for an end.
func stateOf(s cri.ContainerState) observed.ContainerState {
	switch s {
	case cri.ContainerState_CONTAINER_RUNNING:
		return observed.Running
	case cri.ContainerState_CONTAINER_CREATED:
		return observed.Created
	}
	return observed.Exited
}

// at is a time of CRI, nanoseconds since 1970; zero where CRI has none.
func at(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// Limits of a termination message, in bytes and lines; upstream's values.
const (
	maxMessageBytes = 4096
	maxLogBytes     = 2048
	maxLogLines     = 80
)

// terminationMessage reads the container's termination message: its file, or the end of its log if its policy says so.
func (o *Options) terminationMessage(c *cri.ContainerStatus) string {
	path := c.Annotations[annTerminationPath]
	for _, m := range c.Mounts {
		if path != "" && samePath(m.ContainerPath, path) {
			if text := o.messageIn(c, m.HostPath); text != "" {
				return text
			}
		}
	}
	if c.Annotations[annTerminationPolicy] == string(v1.TerminationMessageFallbackToLogsOnError) && c.ExitCode != 0 {
		return logTail(c.LogPath)
	}
	return ""
}

// MessageFolder returns the elements of the path, below the kubelet's folder, of the folder in which the kubelet makes
// a container's files of termination messages. It is upstream's.
func MessageFolder(uid, container string) []string {
	return []string{"pods", uid, "containers", container}
}

// messageIn reads the end of a file of termination messages. A pod can have anything mounted at the path of its
// message, so of the mounted path only the name counts: the file is read in the folder where the kubelet makes such
// files, and no link leads out of that. "" means that there is no such file.
func (o *Options) messageIn(c *cri.ContainerStatus, mounted string) string {
	name := mounted[strings.LastIndexAny(mounted, `/\`)+1:]
	if o.RootDir == "" {
		return ""
	}
	f, err := beneath.File(o.RootDir,
		append(MessageFolder(c.Labels[labelPodUID], c.Labels[labelContainerName]), name)...)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := end(f, maxMessageBytes)
	if err != nil {
		return ""
	}
	return string(text)
}

// end reads the last limit bytes of a file.
func end(f *os.File, limit int64) ([]byte, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(0, size-limit), io.SeekStart)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
