package storage

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/csi"
)

// found is what is known of one volume of a pod that this process prepared.
type found struct {
	backing
	stats   *csi.Stats // nil until it was measured
	taken   time.Time  // of the last attempt to measure
	asking  bool
	unwell  bool // the last event said that the volume is not well
	refused int64
}

// knownVolumes is what is known of the volumes of pods. It is safe for concurrent use.
type knownVolumes struct {
	mu   sync.Mutex
	pods map[types.UID]map[string]found
}

// has reports whether this process has found out what the volume is.
func (k *knownVolumes) has(uid types.UID, volume string) bool {
	_, ok := k.get(uid, volume)
	return ok
}

func (k *knownVolumes) get(uid types.UID, volume string) (found, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f, ok := k.pods[uid][volume]
	return f, ok
}

// update changes what is known of a volume. It does nothing for a pod that was forgotten meanwhile.
func (k *knownVolumes) update(uid types.UID, volume string, change func(*found)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f, ok := k.pods[uid][volume]; ok {
		change(&f)
		k.pods[uid][volume] = f
	}
}

// remember keeps what a volume is; what was measured of it stays.
func (k *knownVolumes) remember(uid types.UID, volume string, b backing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pods == nil {
		k.pods = map[types.UID]map[string]found{}
	}
	if k.pods[uid] == nil {
		k.pods[uid] = map[string]found{}
	}
	f := k.pods[uid][volume]
	f.backing = b
	k.pods[uid][volume] = f
}

func (k *knownVolumes) forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, uid)
}
