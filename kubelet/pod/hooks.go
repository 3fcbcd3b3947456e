package pod

import "porthole.dev/porthole/kubelet/pod/observed"

// PostStart is the progress of the postStart hook of one container instance. Until the hook is done, the container
// does not count as started. If the hook failed, the container is stopped.
type PostStart struct {
	ContainerID  string
	Done, Failed bool
}

// hookStates holds, by container name, how far the postStart hook of the newest instance is.
type hookStates map[string]PostStart

// open reports whether that container instance has a hook that is not done.
func (m hookStates) open(container, id string) bool {
	h := m[container]
	return h.ContainerID == id && !h.Done
}

// failed reports whether the hook of that container instance has failed.
func (m hookStates) failed(container, id string) bool {
	h := m[container]
	return h.ContainerID == id && h.Failed
}

// end notes what came of the hook of an instance. That of another instance comes late and is dropped.
func (m hookStates) end(container, id string, failed bool) {
	if m[container].ContainerID == id {
		m[container] = PostStart{ContainerID: id, Done: true, Failed: failed}
	}
}

// waiting returns the running containers whose hook was not started yet, in no order.
func (m hookStates) waiting(r *observed.Runtime, t taskState) (names []string) {
	for name, hook := range m {
		c, ok := r.Find(hook.ContainerID)
		if ok && c.State == observed.Running && !hook.Done && !t.busy(hookKey(name)) {
			names = append(names, name)
		}
	}
	return names
}

// idle returns the keys of the hooks that run although their container has ended, in no order.
func (m hookStates) idle(r *observed.Runtime, t taskState) (keys []string) {
	for name, hook := range m {
		c, ok := r.Find(hook.ContainerID)
		if t.busy(hookKey(name)) && (!ok || c.State == observed.Exited) {
			keys = append(keys, hookKey(name))
		}
	}
	return keys
}
