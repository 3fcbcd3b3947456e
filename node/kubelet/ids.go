package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/userns"
)

// idsUser is the user of the node whose further ids are for pods, if there is one (pkg/kubelet/kubelet_pods.go of
// 1.36.3).
const idsUser = "kubelet"

// giveIDs finds the user ids of pods that have a user namespace of their own.
func (p *parts) giveIDs(context.Context) error {
	if platform.IsWindows {
		return nil
	}
	length := uint32(userns.DefaultLength)
	if u := p.cfg.UserNamespaces; u != nil && u.IDsPerPod != nil && *u.IDsPerPod != 0 {
		if *u.IDsPerPod < 0 || *u.IDsPerPod > 1<<32-1 {
			return fmt.Errorf("userNamespaces.idsPerPod %d must be between %d and %d", *u.IDsPerPod,
				userns.DefaultLength, int64(1<<32-1))
		}
		length = uint32(*u.IDsPerPod)
	}
	all, err := idsForPods(length)
	if err == nil {
		p.ids, err = userns.New(userns.Options{PodsDir: filepath.Join(p.host.root, "pods"), All: all,
			Length: length, MaxPods: int(p.cfg.MaxPods)})
	}
	if err != nil {
		return fmt.Errorf("create user namespace manager: %w", err)
	}
	return nil
}

// parseSubIDs reads what getsubids prints: one line such as "0: kubelet 65536 7208960".
func parseSubIDs(text string) (userns.Range, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	words := strings.Fields(lines[0])
	if len(lines) != 1 || len(words) != 4 || words[0] != "0:" || words[1] != idsUser {
		return userns.Range{}, fmt.Errorf(
			"error parsing line %q: getsubids has to list one range of ids of the user %s", text, idsUser)
	}
	first, err := strconv.ParseUint(words[2], 10, 32)
	if err != nil {
		return userns.Range{}, fmt.Errorf("error parsing line %q: %w", text, err)
	}
	length, err := strconv.ParseUint(words[3], 10, 32)
	if err != nil {
		return userns.Range{}, fmt.Errorf("error parsing line %q: %w", text, err)
	}
	return userns.Range{First: uint32(first), Length: uint32(length)}, nil
}
