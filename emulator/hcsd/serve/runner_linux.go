package serve

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/container"
	"porthole.dev/porthole/emulator/hcsd/systems"
)

// runner starts, watches and kills what the store of systems records. It has no state of its own.
type runner struct {
	hostDir string
	runtime *container.Runtime
	systems *systems.Store
	mounted func(volume string) (dir string, err error)          // where a layer is mounted
	domain  func(*hcsd.CredentialGuard) (name string, err error) // that a container is joined to
}

// restore watches the systems that an earlier hcsd started, and removes what it left of others.
func (r *runner) restore(ctx context.Context) error {
	list, err := r.systems.Restore(r.runtime)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, a := range list {
		known[a.Key] = true
		go r.watch(ctx, a.Instance, a.Init)
		if _, err := r.runtime.ListenPipes(ctx, pipesOf(a.Instance, a.Pipes)); err != nil {
			klog.FromContext(ctx).Error(err, "Taking over a container", "system", a.ID)
		}
		for _, p := range a.Programs {
			go r.watchProgram(ctx, a.Instance, a.Init, p)
		}
	}
	if err := r.runtime.Sweep(ctx, known); err != nil {
		klog.FromContext(ctx).Error(err, "Removing what an earlier HCS left")
	}
	return nil
}

func pipesOf(i *systems.Instance, pipes []hcsd.MappedPipe) container.Pipes {
	return container.Pipes{ID: i.ID, Key: i.Key, Pipes: pipes, Over: i.Over()}
}

// start makes the container of a system and starts it. Until it runs, other calls see the system as created.
func (r *runner) start(ctx context.Context, id string) error {
	i, doc, done, err := r.systems.Startable(id)
	if err != nil {
		return err
	}
	defer done()
	init, err := r.run(ctx, i, doc)
	if err == nil {
		err = r.systems.Started(i, init, now())
	}
	if err != nil {
		return errors.Join(err, r.runtime.End(ctx, i.Key))
	}
	go r.watch(ctx, i, init)
	return nil
}

// run starts the container of a system, and returns its first process when programs can be started in it.
func (r *runner) run(ctx context.Context, i *systems.Instance, doc hcsd.Container) (container.Process, error) {
	o := container.Start{ID: i.ID, Key: i.Key, Doc: doc}
	var err error
	if o.DriveC, err = r.mounted(doc.Storage.Path); err != nil {
		return container.Process{}, err
	}
	if o.Network, err = r.networkOf(ctx, doc.Networking); err != nil {
		return container.Process{}, err
	}
	if o.Domain, err = r.domain(doc.ContainerCredentialGuard); err != nil {
		return container.Process{}, err
	}
	init, err := r.runtime.Run(ctx, o)
	if err != nil || len(doc.MappedPipes) == 0 {
		return init, err
	}

	number, hostname := r.systems.NextProgram(i)
	server := container.Launch{Key: i.Key, Number: number, Init: init, Hostname: hostname}
	return init, r.runtime.MapPipes(ctx, pipesOf(i, doc.MappedPipes), server)
}

// watch waits until the container of a system has ended.
func (r *runner) watch(ctx context.Context, i *systems.Instance, init container.Process) {
	log := klog.FromContext(ctx)
	if err := init.Wait(ctx); err != nil {
		if ctx.Err() == nil {
			log.Error(err, "Watching a container", "system", i.ID)
		}
		return
	}
	if err := r.runtime.End(ctx, i.Key); err != nil {
		log.Error(err, "Removing a container that has ended", "system", i.ID)
	}
	if err := r.systems.Ended(ctx, i); err != nil {
		log.Error(err, "A container has ended", "system", i.ID)
	}
}

// stop is shutdown and termination, which differ on Windows in what programs can do before. Here both end them.
func (r *runner) stop(ctx context.Context, id string) error {
	process, err := r.systems.Stop(id)
	if process != nil {
		r.kill(ctx, process)
	}
	return err
}

// kill begins the end of systems by their first processes.
func (r *runner) kill(ctx context.Context, list ...*container.Process) {
	for _, p := range list {
		go func() {
			if err := p.Signal(unix.SIGKILL); err != nil {
				klog.FromContext(ctx).Error(err, "Ending a container", "pid", p.Pid)
			}
		}()
	}
}

// startProgram starts a program, for a caller that gets its streams and a handle of it. The pid is that of the
// program's launcher on this machine, so that it is the same in no other system.
func (r *runner) startProgram(ctx context.Context, c call, doc hcsd.Process) (*systems.Program, error) {
	i, init, err := r.systems.Running(c.subject())
	if err != nil {
		return nil, err
	}
	defer i.Starting()()
	p := &systems.Program{}
	o := container.Launch{Key: i.Key, Init: init, Doc: doc}
	o.Number, o.Hostname = r.systems.NextProgram(i)
	p.Number = o.Number
	if p.Process, p.Streams, err = r.runtime.Launch(ctx, o); err != nil {
		return nil, err
	}

	p.Streams.Own(c.process)
	if err := r.systems.AddProgram(c.conn, i, p, doc, now()); err != nil {
		p.Streams.Close()
		return nil, errors.Join(err, p.Process.Signal(unix.SIGKILL))
	}
	go r.watchProgram(ctx, i, init, p)
	return p, nil
}

// watchProgram waits until a program has ended.
func (r *runner) watchProgram(ctx context.Context, i *systems.Instance, init container.Process, p *systems.Program) {
	log := klog.FromContext(ctx).WithValues("system", i.ID, "pid", p.Process.Pid)
	if err := p.Process.Wait(ctx); err != nil {
		if ctx.Err() == nil {
			log.Error(err, "Watching a program")
		}
		return
	}
	var e systems.Exit
	e.Code, e.Told = r.runtime.ExitCode(i.Key, p.Number)
	e.Kills = init.MemoryKills()
	if err := r.systems.ProgramEnded(i, p, e); err != nil {
		log.Error(err, "A program has ended")
	}
}

// use measures what a system that runs uses.
func (r *runner) use(ctx context.Context, id string) (*systems.Use, error) {
	i, init, err := r.systems.Running(id)
	if errors.Is(err, hcsd.ErrAlreadyStopped) {
		err = hcsd.ErrInvalidState
	}
	if err != nil {
		return nil, err
	}
	u := &systems.Use{Server: init.ProcessorTime()}
	u.Measured, err = r.runtime.Measure(ctx, i.Key)
	return u, err
}
