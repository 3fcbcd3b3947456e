package serve

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/handles"
	"porthole.dev/porthole/emulator/hcsd/silos"
	"porthole.dev/porthole/emulator/hcsd/systems"
	"porthole.dev/porthole/emulator/wire"
)

// operation carries out one function: it reads what the texts of a call say, and asks a store.
type operation = func(context.Context, call) (result, error)

// functions are those of vmcompute.dll, bindfltapi.dll and virtdisk.dll that are carried out; any other is not
// implemented.
func (s *Service) functions() map[string]operation {
	stop := func(ctx context.Context, c call) (result, error) { return result{}, s.runner.stop(ctx, c.subject()) }
	return map[string]operation{
		"HcsCreateComputeSystem": func(_ context.Context, c call) (result, error) {
			return result{}, s.systems.Create(c.conn, c.subject(), c.document(), now())
		},
		"HcsOpenComputeSystem": func(_ context.Context, c call) (result, error) {
			return result{}, s.systems.Open(c.conn, handles.Ref{System: c.subject()})
		},
		"HcsStartComputeSystem": func(ctx context.Context, c call) (result, error) {
			return result{}, s.runner.start(ctx, c.subject())
		},
		"HcsShutdownComputeSystem":      stop,
		"HcsTerminateComputeSystem":     stop,
		"HcsGetComputeSystemProperties": s.systemProperties,
		"HcsModifyComputeSystem":        s.modifySystem,
		"HcsEnumerateComputeSystems":    ofDocument(s.systems.Enumerate),
		"HcsGetServiceProperties":       ofDocument(s.credentials.Properties),
		"HcsModifyServiceSettings": func(_ context.Context, c call) (result, error) {
			return result{}, s.credentials.Modify(c.document())
		},

		"HcsCreateProcess": s.createProcess,
		"HcsOpenProcess": func(_ context.Context, c call) (result, error) {
			err := s.systems.Open(c.conn, handles.Ref{System: c.subject(), Pid: c.pid()})
			return result{handle: uint64(c.pid())}, err
		},
		"HcsTerminateProcess": s.terminateProcess,
		"HcsSignalProcess":    s.signalProcess,
		"HcsModifyProcess":    s.modifyProcess,
		"HcsGetProcessProperties": func(_ context.Context, c call) (result, error) {
			text, err := s.systems.ProgramStatus(c.subject(), c.pid())
			return result{text: text}, err
		},

		"NameToGuid": func(_ context.Context, c call) (result, error) {
			return result{text: hcsd.NameToGUID(c.subject())}, nil
		},
		"ProcessBaseImage": ofPath(s.layers.MakeBase),
		"ImportLayer":      s.importLayer,
		"ActivateLayer":    ofPath(s.layers.Activate),
		"PrepareLayer": func(_ context.Context, c call) (result, error) {
			return result{}, s.layers.Prepare(c.subject(), parentsOf(c.document()))
		},
		"UnprepareLayer":  ofPath(s.layers.Unprepare),
		"DeactivateLayer": ofPath(s.layers.Deactivate),
		"DestroyLayer": func(ctx context.Context, c call) (result, error) {
			return result{}, s.layers.Destroy(ctx, c.subject())
		},
		"GetLayerMountPath": func(_ context.Context, c call) (result, error) {
			text, err := s.layers.MountPath(c.subject())
			return result{text: text}, err
		},
		"LayerExists":       s.layerExists,
		"ExpandSandboxSize": s.expandSandbox,
		"AttachVirtualDisk": ofPath(s.layers.AttachDisk),

		"BfSetupFilter": s.bind,
		"BfRemoveMapping": func(_ context.Context, c call) (result, error) {
			return result{}, s.silos.Unbind(c.subject(), c.document())
		},
		"BfGetMappings": s.mappings,
	}
}

// ofPath is the operation of a function whose only argument is a path.
func ofPath(f func(path string) error) operation {
	return func(_ context.Context, c call) (result, error) { return result{}, f(c.subject()) }
}

// ofDocument is the operation of a function that answers a document with another one.
func ofDocument(f func(document string) (string, error)) operation {
	return func(_ context.Context, c call) (result, error) {
		text, err := f(c.document())
		return result{text: text}, err
	}
}

func (s *Service) systemProperties(ctx context.Context, c call) (result, error) {
	types, measure, err := hcsd.ParseQuery(c.document())
	if err != nil {
		return result{}, err
	}
	var use *systems.Use
	if measure {
		if use, err = s.runner.use(ctx, c.subject()); err != nil {
			return result{}, err
		}
	}
	text, err := s.systems.Properties(c.subject(), types, use, now())
	return result{text: text}, err
}

func (s *Service) modifySystem(ctx context.Context, c call) (result, error) {
	key, doc, err := s.systems.Modify(c.subject(), c.document())
	if err != nil {
		return result{}, err
	}
	return result{}, s.runner.runtime.Update(ctx, key, doc)
}

func (s *Service) createProcess(ctx context.Context, c call) (result, error) {
	var doc hcsd.Process
	if err := hcsd.Decode(c.document(), &doc); err != nil {
		return result{}, err
	}
	if err := doc.Check(); err != nil {
		return result{}, err
	}
	if !guest.KnownUser(doc.User) {
		return result{}, hcsd.ErrLogonFailure
	}
	p, err := s.runner.startProgram(ctx, c, doc)
	if err != nil {
		return result{}, err
	}
	return result{text: p.Streams.Numbers(), handle: uint64(p.Process.Pid)}, nil
}

// terminateProcess ends the launcher, with which the program ends.
func (s *Service) terminateProcess(_ context.Context, c call) (result, error) {
	kill := func(_ string, p *systems.Program, _ hcsd.Process) error { return p.Process.Signal(unix.SIGKILL) }
	return result{}, s.systems.WithProgram(c.subject(), c.pid(), kill)
}

func (s *Service) signalProcess(_ context.Context, c call) (result, error) {
	var signal hcsd.Signal
	if err := hcsd.Decode(c.document(), &signal); err != nil {
		return result{}, err
	}
	event, err := signal.Event()
	if err != nil {
		return result{}, err
	}
	send := func(key string, p *systems.Program, _ hcsd.Process) error {
		return s.runner.runtime.SendEvent(key, p.Number, p.Process, event)
	}
	return result{}, s.systems.WithProgram(c.subject(), c.pid(), send)
}

func (s *Service) modifyProcess(_ context.Context, c call) (r result, err error) {
	var change hcsd.ProcessChange
	if err := hcsd.Decode(c.document(), &change); err != nil {
		return result{}, err
	}
	err = s.systems.WithProgram(c.subject(), c.pid(), func(key string, p *systems.Program, doc hcsd.Process) error {
		if change.Operation == "ConsoleSize" && change.ConsoleSize != nil && doc.EmulateConsole {
			if err := change.ConsoleSize.Check(); err != nil {
				return err
			}
			return s.runner.runtime.Resize(key, p.Number, p.Process, *change.ConsoleSize)
		}
		if change.Operation != "CloseHandle" || change.CloseHandle == nil || change.CloseHandle.Handle != "StdIn" {
			return hcsd.ErrNotSupported.WithText("operation %q on a process", change.Operation)
		}
		if p.Streams.CloseInput(c.process) {
			r.handle = wire.HCSDrain
		}
		return nil
	})
	return r, err
}

// parentsOf reads the paths of layer descriptors, topmost first, which vmcompute.dll sends one a line.
func parentsOf(text string) []string {
	parents := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if parents[0] == "" {
		return nil
	}
	return parents
}

func (s *Service) importLayer(_ context.Context, c call) (result, error) {
	folder, parents, _ := strings.Cut(c.document(), "\n")
	return result{}, s.layers.Import(c.subject(), folder, parentsOf(parents))
}

func (s *Service) layerExists(_ context.Context, c call) (r result, err error) {
	exists, err := s.layers.Exists(c.subject())
	if exists {
		r.handle = 1
	}
	return r, err
}

func (s *Service) expandSandbox(ctx context.Context, c call) (result, error) {
	size, err := strconv.ParseUint(c.document(), 10, 63) // as an offset in a file
	if err != nil {
		return result{}, hcsd.ErrInvalidArgument.WithText("%q is no size of a disk", c.document())
	}
	return result{}, s.layers.Expand(ctx, c.subject(), size)
}

// Flags of BfSetupFilter (hcsshim, internal/winapi/bindflt.go).
const (
	bindReadOnly = 1
	bindMerged   = 2
)

// bind makes one mapping. The document has its flags, where it is seen, and what is seen there, each on a line of its
// own.
func (s *Service) bind(_ context.Context, c call) (result, error) {
	lines := strings.Split(c.document(), "\n")
	if len(lines) != 3 {
		return result{}, hcsd.ErrInvalidArgument
	}
	flags, err := strconv.ParseUint(lines[0], 10, 32)
	if err != nil {
		return result{}, hcsd.ErrInvalidArgument
	}
	return result{}, s.silos.Bind(silos.Request{Maker: c.conn, Job: c.subject(), Root: lines[1], Target: lines[2],
		ReadOnly: flags&bindReadOnly != 0, Merged: flags&bindMerged != 0})
}

// mappings lists the mappings of a silo, or without one those that all programs see: flags, where each is seen and
// what, a line each.
func (s *Service) mappings(_ context.Context, c call) (result, error) {
	var text strings.Builder
	for _, m := range s.silos.Mappings(c.subject()) {
		flags := 0
		if m.ReadOnly {
			flags = bindReadOnly
		}
		fmt.Fprintf(&text, "%d\n%s\n%s\n", flags, m.Root, m.Target)
	}
	return result{text: text.String()}, nil
}
