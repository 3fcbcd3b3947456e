package registration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"porthole.dev/porthole/internal/wakeup"
)

// Watcher watches the folder of registration sockets. Make it with New; Run does the work.
type Watcher struct {
	dir      string
	handlers map[string]Handler // by type
}

// New returns a Watcher of the sockets below dir. A plugin of a type without a handler is told that it is not
// supported.
func New(dir string, handlers map[string]Handler) *Watcher {
	return &Watcher{dir: dir, handlers: handlers}
}

// Run registers plugins until ctx ends. It makes the folder if it does not exist.
func (w *Watcher) Run(ctx context.Context) error {
	if err := os.MkdirAll(w.dir, 0o750); err != nil {
		return fmt.Errorf("making the folder of registration sockets: %w", err)
	}

	var all sync.WaitGroup
	defer all.Wait()
	known := map[string]identity{}
	stops := map[string]func(){}
	tick := time.NewTicker(scanPeriod)
	defer tick.Stop()
	for {
		found, err := sockets(w.dir)
		if err != nil { // unknown is not absent: what is registered stays
			klog.FromContext(ctx).Error(err, "Reading the folder of registration sockets failed")
			found = known
		}
		for _, c := range plan(known, found) {
			if c.gone {
				stops[c.path]()
				delete(stops, c.path)
				continue
			}
			stops[c.path] = w.keep(ctx, &all, c.path)
		}
		known = found

		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// keep registers the plugin of one socket in a goroutine. What it returns says that the socket is gone, and waits
// until the plugin is forgotten. The end of ctx leaves the plugin registered: the next kubelet finds it.
func (w *Watcher) keep(ctx context.Context, all *sync.WaitGroup, path string) (gone func()) {
	asking, stop := context.WithCancel(ctx)
	var registered *Plugin
	done := make(chan struct{})

	all.Go(func() {
		defer close(done)
		for failures := 1; asking.Err() == nil; failures++ {
			p, taken, err := w.register(asking, path)
			if taken {
				registered = &p
			}
			if err == nil {
				klog.FromContext(ctx).Info("Registered plugin", "plugin", p.Name, "type", p.Type, "endpoint",
					p.Endpoint)
				return
			}
			if asking.Err() == nil {
				klog.FromContext(ctx).Error(err, "Registering a plugin failed", "socket", path, "failures", failures)
			}
			wakeup.Pause(asking, registerBackoff.Wait(failures))
		}
	})

	return func() {
		stop()
		<-done
		if registered != nil {
			klog.FromContext(ctx).Info("Plugin is gone", "plugin", registered.Name, "type", registered.Type)
			w.handlers[registered.Type].Deregister(ctx, *registered)
		}
	}
}

// register speaks the protocol once with the plugin behind a socket. taken reports whether the handler took the plugin
// in, which it may have although the plugin could not be told.
func (w *Watcher) register(ctx context.Context, path string) (p Plugin, taken bool, err error) {
	conn, err := Dial(path)
	if err != nil {
		return Plugin{}, false, err
	}
	defer conn.Close()
	client := registerapi.NewRegistrationClient(conn)

	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := client.GetInfo(asking, &registerapi.InfoRequest{})
	if err != nil {
		return Plugin{}, false, fmt.Errorf("asking the plugin at %s what it is: %w", path, err)
	}

	p = Plugin{Type: info.Type, Name: info.Name, Endpoint: info.Endpoint, Versions: info.SupportedVersions}
	if p.Endpoint == "" {
		p.Endpoint = path
	}
	err = w.handle(ctx, p)
	taken = err == nil

	telling, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	status := &registerapi.RegistrationStatus{PluginRegistered: err == nil}
	if err != nil {
		status.Error = err.Error()
	}
	if _, told := client.NotifyRegistrationStatus(telling, status); told != nil && taken {
		err = fmt.Errorf("telling plugin %s that it is registered: %w", p.Name, told)
	}
	return p, taken, err
}

func (w *Watcher) handle(ctx context.Context, p Plugin) error {
	h := w.handlers[p.Type]
	if h == nil {
		return fmt.Errorf("plugins of type %q are not supported", p.Type)
	}
	if err := check(p); err != nil {
		return err
	}
	return h.Register(ctx, p)
}

// Dial makes a connection to a plugin's socket. It does not wait for the plugin. The caller closes the connection.
func Dial(socket string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	options := append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(dial)}, more...)
	conn, err := grpc.NewClient("passthrough:///plugin", options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the plugin at %s: %w", socket, err)
	}
	return conn, nil
}

// sockets returns the registration sockets below dir: upstream also looks into folders, and leaves out names that
// begin with a dot.
func sockets(dir string) (map[string]identity, error) {
	found := map[string]identity{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != dir { // it went away meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") && path != dir {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}

		info, err := d.Info()
		if err == nil && isSocket(info) {
			found[path] = identify(info)
		}
		return nil
	})

	if err != nil {
		return nil, fmt.Errorf("listing registration sockets: %w", err)
	}
	return found, nil
}
