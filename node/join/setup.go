package join

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/join/credential"
	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/step"
)

// Setup is this machine as the node that it is, or is to be: where things are, what the node is made with, and what was
// done so far. The steps of a system are made from it.
type Setup struct {
	install.Node
	Choices // Network is the one that counts, once the cluster was read
	Journal *step.Journal
	// Pods and Services are the ranges of the cluster: those that were chosen, or its own.
	Pods, Services string
	// Bundled is the folder of the program that runs: what belongs to it lies beside it.
	Bundled string
	Root    string // Windows: C:\
	// Start says that the steps start the node's programs.
	Start       bool
	CheckRoutes func(args []string) error // as in Request
}

// Progress is told how a run goes on; it prints for users.
type Progress interface {
	// Checked is called once, with the results of the checks.
	Checked(list []step.Check)
	// Step is called after each step that was carried out.
	Step(step.Result)
	// Say is called with what a user should know at once.
	Say(text string)
}

// testPoint is called before and after each step that changes something. Builds for tests end the process there.
var testPoint = func(string) {}

// newSetup returns where things are on this machine. It has an empty journal.
func newSetup(r Request) (*Setup, error) {
	host, err := platform.ReadHost(rootFolder(r.Root))
	if err != nil {
		return nil, err
	}
	s := &Setup{Root: r.Root, Start: r.Wait != WaitNone, CheckRoutes: r.CheckRoutes}
	s.choose(r.Choices)
	s.paths()
	s.Name = strings.ToLower(cmp.Or(r.NodeName, host.Hostname))
	s.UUID = host.SystemUUID
	journal := step.NewJournal(s.Name, "")
	s.Journal = &journal

	// A link to the program leads to the folder where its other files are.
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	s.Bundled = filepath.Dir(self)
	return s, nil
}

// choose makes the node one with these choices.
func (s *Setup) choose(c Choices) { s.Choices, s.IP = c, c.NodeIP }

// readJournal reads the journal of an earlier run, and reports whether there is one.
func (s *Setup) readJournal() (found bool, err error) {
	text, err := os.ReadFile(s.Node.Journal())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the journal: %w", err)
	}
	journal, err := step.ParseJournal(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", s.Node.Journal(), err)
	}
	s.Journal = &journal
	return true, nil
}

// remember notes in the journal what the node is made with. It is on the disk with the next change.
// Paths are kept as full ones.
func (s *Setup) remember() error {
	choices, err := s.absolute()
	if err != nil {
		return err
	}
	text, err := json.Marshal(choices)
	if err != nil {
		return fmt.Errorf("encoding the journal: %w", err)
	}
	facts := s.Journal.Facts
	facts[factPods] = s.Pods
	facts[factServices] = s.Services
	facts[factChoices] = string(text)
	return nil
}

// recalled returns what this machine remembers of its join, and reports whether there is something.
func recalled() (s *Setup, joined bool, err error) {
	s, err = newSetup(Request{Choices: Choices{InstallDir: DefaultInstallDir}})
	if err != nil {
		return nil, false, err
	}
	if found, err := s.readJournal(); err != nil || !found {
		return s, false, err
	}
	j := s.Journal
	choices, ok, err := parseChoices(j.Facts)
	if err != nil {
		return nil, false, err
	}
	if ok {
		s.choose(choices)
	}

	// Without the kubeconfig the journal still says which cluster it is.
	s.Name = j.Node
	s.Pods, s.Services = cmp.Or(s.PodCIDR, j.Facts[factPods]), cmp.Or(s.ServiceCIDR, j.Facts[factServices])
	s.Cluster = &credential.Cluster{Server: j.Server, CAHash: j.CAHash}
	if f, err := s.readKubeconfig(); err == nil {
		s.Cluster = &f.Cluster
	}
	s.Settings = &credential.Settings{PodSubnet: j.Facts[factPods], ServiceSubnet: j.Facts[factServices]}
	return s, true, nil
}

// readKubeconfig reads the kubeconfig of the node.
func (s *Setup) readKubeconfig() (*credential.FromFile, error) {
	text, err := os.ReadFile(s.Kubeconfig())
	if err != nil {
		return nil, err
	}
	return credential.ParseKubeconfig(text)
}
