package kubeproxy

import "porthole.dev/porthole/internal/bootrecord"

// rebooted reports whether the host may have rebooted since an earlier run completed its work, and why. It may have if
// there is no readable record: the earlier run may have been of a version that wrote none. It is false if the boot id
// is not known (""): then each start of the proxy would count as a reboot, and replace load balancers that are right.
func rebooted(file, bootID string) (may bool, why string) {
	if bootID == "" {
		return false, ""
	}
	why = bootrecord.ReadyIn(file, bootID)
	return why != "", why
}

// recordBoot records whether all our objects in HNS were written in this boot.
func recordBoot(file, bootID string, phase bootrecord.Phase) error {
	return bootrecord.Write(file, bootrecord.Record{BootID: bootID, Phase: phase})
}
