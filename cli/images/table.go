package images

import (
	"context"
	"errors"
	"sync"

	"porthole.dev/porthole/internal/winbuild"
)

// Row is one image in a table of images and nodes. With an Error nothing is known of where it runs.
type Row struct {
	Image string       `json:"image"`
	Error string       `json:"error,omitempty"`
	Hosts []hostResult `json:"hosts,omitempty"`
}

// lookups is how many images are looked up at once.
const lookups = 4

// Table looks up images and says on which Windows nodes each runs, in process isolation. The nodes are those of the kubeconfig's cluster, or else of the
// local cluster in dir.
func Table(ctx context.Context, kubeconfig, dir string, names []string) ([]Row, error) {
	f := checkFlags{sources: sources{configDir: defaultLogins()}}
	if kubeconfig == "" {
		local, err := findLocal(dir)
		if err != nil {
			return nil, err
		}
		f.useLocal(local)
		kubeconfig = local.kubeconfig
	}
	if kubeconfig == "" {
		return nil, errors.New("no cluster is named")
	}
	hosts, err := hostsOfCluster(ctx, kubeconfig)
	if err != nil {
		return nil, err
	}

	rows := make([]Row, len(names))
	slots := make(chan struct{}, lookups)
	var tasks sync.WaitGroup
	for i, name := range names {
		tasks.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			rows[i] = f.row(ctx, name, hosts)
		})
	}
	tasks.Wait()
	return rows, nil
}

func (f *checkFlags) row(ctx context.Context, name string, hosts []winbuild.Host) Row {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	r := Row{Image: name}
	found, err := f.find(ctx, name)
	var is winbuild.Image
	if err == nil {
		is, err = found.Platforms(ctx)
	}
	if err != nil {
		r.Error = err.Error()
		return r
	}
	for _, h := range hosts {
		r.Hosts = append(r.Hosts, resultOf(is, h, winbuild.Process))
	}
	return r
}
