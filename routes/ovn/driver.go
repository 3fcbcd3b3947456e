package ovn

import "fmt"

// driverService is the service of Open vSwitch's extension of Hyper-V's switch (openvswitch
// datapath-windows/ovsext/ovsext.inf).
const driverService = "OVSExt"

// startDisabled is the value Start of a service that is never started (winsvc.h, SERVICE_DISABLED).
const startDisabled = 4

// driver is what Windows's registry says about the extension.
type driver struct {
	Installed bool
	Start     uint64 // as the registry has it
	Err       error  // why it could not be read
}

// checkDriver returns an error that says what the extension lacks on this host. Whether it is enabled on the switch is
// a policy of the HNS network, which is compared with the others of that network.
func checkDriver(d driver) error {
	switch {
	case d.Err != nil:
		return fmt.Errorf("whether the extension of Open vSwitch for the virtual switch is installed is not known: %w",
			d.Err)
	case !d.Installed:
		return fmt.Errorf(
			"the extension of Open vSwitch for the virtual switch is not installed: the driver has no service %s. Run install.cmd of Open vSwitch's "+
				"package; a driver that Microsoft has not signed is loaded only after `bcdedit /set TESTSIGNING ON` and a reboot. "+
				"--mode vxlan needs no driver", driverService)
	case d.Start == startDisabled:
		return fmt.Errorf(
			"the extension of Open vSwitch for the virtual switch is disabled: `sc.exe config %s start= system`, then reboot", driverService)
	}
	return nil
}
