package runtime

import (
	"bytes"
	"context"
	_ "embed" // the profile
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/atomicfile"
)

// sandboxProfile is the seccomp profile of a sandbox's process. It refuses what the default profile of containerd 2.3
// refuses a process with a sandbox's capabilities; TestSandboxProfile compares the two and has the few exceptions.
//
// The runtime's profile lists some 370 system calls that are allowed, for three architectures. runc takes 20 ms of
// processor time to compile it, an eighth of what the start of a pod costs. This one lists those that are refused, for
// the machine's own architecture. The flags of clone and the socket families are numbers of Linux: CLONE_NEW*, AF_ALG,
// AF_VSOCK.
//
//go:embed sandbox-seccomp.json
var sandboxProfile []byte

// WriteSandboxProfile writes the seccomp profile of sandboxes below the folder of the node's profiles, for
// Options.SandboxProfile, and returns its path. The path is empty on architectures for which the profile was not made.
func WriteSandboxProfile(seccompRoot string) (path string, err error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return "", nil
	}
	path = filepath.Join(seccompRoot, "porthole", "sandbox.json")
	if has, err := os.ReadFile(path); err == nil && bytes.Equal(has, sandboxProfile) {
		return path, nil
	}

	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("creating the folder of the sandboxes' seccomp profile: %w", err)
	}
	if err := atomicfile.Write(path, sandboxProfile, 0o644); err != nil {
		return "", fmt.Errorf("writing the sandboxes' seccomp profile: %w", err)
	}
	return path, nil
}

// boxProfile is our seccomp profile of sandboxes.
type boxProfile struct {
	path    string      // Options.SandboxProfile
	refused atomic.Bool // the runtime cannot use it
}

// of returns our profile for a sandbox, or nil where the runtime's is used, as upstream does: with
// handlers other than the default one, such as of virtual machines, which may not read files of the node, and where
// the runtime has refused ours.
func (b *boxProfile) of(handler string) *cri.SecurityProfile {
	if b.path == "" || handler != "" || b.refused.Load() {
		return nil
	}
	return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: b.path}
}

// noteRefusal makes later sandboxes have the runtime's profile if the error is about ours, as when the runtime does
// not see the kubelet's files.
func (b *boxProfile) noteRefusal(ctx context.Context, ours *cri.SecurityProfile, err error) {
	if ours != nil && strings.Contains(err.Error(), "seccomp") && !b.refused.Swap(true) {
		klog.FromContext(ctx).Error(err,
			"The runtime refused the seccomp profile of sandboxes; they have the runtime's own from now on", "profile",
			ours.LocalhostRef)
	}
}
