package host

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
)

// shutdownLimit bounds what all services of a host may take together to stop.
const shutdownLimit = 10 * time.Minute

// callSCM asks the host's service manager; the answer is JSON.
func (h Host) callSCM(function, args string, into any) error {
	if h.OS != "windows" {
		return fmt.Errorf("host %s is a Linux node: it has no service manager", h.Name)
	}
	var answer string
	err := platform.InNetns(platform.NetnsPath(h.Netns), func() error {
		conn, err := net.DialTimeout("tcp", wire.SCMAddress, 5*time.Second)
		if err != nil {
			return fmt.Errorf("it does not run (`porthole host list` shows the host's processes): %w", err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(shutdownLimit)); err != nil {
			return err
		}
		answer, err = scm.Call(conn, function, "", args)
		return err
	})
	if err == nil {
		err = json.Unmarshal([]byte(answer), into)
	}
	if err != nil {
		return fmt.Errorf("asking the service manager of host %s: %w", h.Name, err)
	}
	return nil
}

// Services lists the Windows services of the host.
func (h Host) Services() (list []scm.Listed, err error) {
	return list, h.callSCM("services", "", &list)
}

// Fault makes calls of the host's service manager fail, until it restarts: the text is what scm.ParseFault reads.
func Fault(h Host, text string) error {
	if _, err := scm.ParseFault(text); err != nil {
		return err
	}
	return h.callSCM("fault", text, new(any))
}

// Events reads the host's Windows event log, oldest entry first.
func (h Host) Events() ([]scm.Event, error) { return scm.ReadEvents(filepath.Join(h.Dir, "scm")) }

// stopServices ends the host's services as Windows does when it shuts down, and tells how each ended.
func (h Host) stopServices() (ended []scm.Ended, err error) {
	return ended, h.callSCM("shutdown", "", &ended)
}
