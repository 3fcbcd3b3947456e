package kubeproxy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"porthole.dev/porthole/internal/atomicfile"
)

// bootRecord is the content of a file. With it kube-proxy in mode kernelspace detects that the host has rebooted since its last run.
type bootRecord struct {
	BootID string `json:"bootID"`
}

// rebooted reports whether the host may have rebooted since an earlier run completed its work, and why. It may have if there is no
// readable record: the earlier run may have been of a version that wrote none. It is false if the boot id is not known (""): then each
// start of the proxy would count as a reboot, and replace load balancers that are right.
func rebooted(file, bootID string) (may bool, why string) {
	if bootID == "" {
		return false, ""
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return true, err.Error()
	}
	var last bootRecord
	if err := json.Unmarshal(data, &last); err != nil {
		return true, fmt.Sprintf("%s: %v", file, err)
	}
	if last.BootID != bootID {
		return true, fmt.Sprintf("the boot id was %s and is %s", last.BootID, bootID)
	}
	return false, ""
}

// recordBoot records that all our objects in HNS were written in this boot.
func recordBoot(file, bootID string) error {
	data, err := json.Marshal(bootRecord{bootID})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("recording the boot id: %w", err)
	}
	if err := atomicfile.Write(file, data, 0o644); err != nil {
		return fmt.Errorf("recording the boot id: %w", err)
	}
	return nil
}
