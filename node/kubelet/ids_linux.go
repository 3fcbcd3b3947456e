package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"os/user"

	"porthole.dev/porthole/kubelet/userns"
)

// idsForPods returns which ids pods can have: those of the user kubelet, as the program getsubids lists them, or all
// but the first length if there is no such user or no such program.
func idsForPods(length uint32) (userns.Range, error) {
	rest := userns.Range{First: length, Length: uint32((1 << 32) - uint64(length))}
	var unknown user.UnknownUserError
	// no /etc/passwd: no users
	if _, err := user.Lookup(idsUser); errors.As(err, &unknown) || errors.Is(err, fs.ErrNotExist) {
		return rest, nil
	} else if err != nil {
		return userns.Range{}, fmt.Errorf("looking up the user %s: %w", idsUser, err)
	}
	program, err := exec.LookPath("getsubids")
	if errors.Is(err, exec.ErrNotFound) {
		return rest, nil
	}
	if err != nil {
		return userns.Range{}, fmt.Errorf("looking for getsubids: %w", err)
	}

	uids, err := exec.Command(program, idsUser).Output()
	if err != nil {
		return userns.Range{}, fmt.Errorf("error retrieving additional uids for user %q: %w", idsUser, err)
	}
	gids, err := exec.Command(program, "-g", idsUser).Output()
	if err != nil {
		return userns.Range{}, fmt.Errorf("error retrieving additional gids for user %q: %w", idsUser, err)
	}
	if string(uids) != string(gids) {
		return userns.Range{}, fmt.Errorf("mismatched subuids and subgids for user %q", idsUser)
	}
	return parseSubIDs(string(uids))
}
