package routes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/routes/table"
)

// nodesFile is the file of a memory in the folder for state.
const nodesFile = "nodes.json"

const (
	// patience is how long an agent that starts waits for the API server before it works with the nodes of the file: short beside the
	// time in which peers keep the routes of a node that restarts (bgp's restartTime, 30 s).
	patience = 5 * time.Second
	// saveInterval is the least time between two writes of the file.
	saveInterval = 10 * time.Second
)

// memory is a cluster whose nodes outlive this process: an agent that starts while the API server is away works with those that an earlier
// one knew. The mode bgp needs that, because peers drop the routes of a node whose agent opens no session. It is safe for concurrent use.
type memory struct {
	cluster
	file string
	from time.Time // when the nodes of the file are good enough

	mu    sync.Mutex
	read  bool
	saved remembered // the file, as an earlier process left it
	has   []byte     // content of the file; nil: not known. Of run only
}

// remembered is the content of the file.
type remembered struct {
	Nodes []table.Node
	Self  *corev1.Node // this node, as cluster.Self returns it
}

func newMemory(c cluster, file string) *memory {
	return &memory{cluster: c, file: file, from: time.Now().Add(patience)}
}

// List returns the nodes as the API server told them, or those of the file if it has not in this process.
func (m *memory) List() ([]table.Node, bool) {
	if nodes, ok := m.cluster.List(); ok {
		return nodes, true
	}
	saved := m.recall()
	return saved.Nodes, len(saved.Nodes) > 0
}

// Self returns this node likewise.
func (m *memory) Self() *corev1.Node {
	if _, ok := m.cluster.List(); ok {
		return m.cluster.Self()
	}
	return m.recall().Self
}

// recall returns the content of the file once it is good enough.
func (m *memory) recall() remembered {
	if time.Now().Before(m.from) {
		return remembered{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read {
		return m.saved
	}

	m.read = true
	logger := klog.Background().WithName("routes")
	if err := m.load(); err != nil {
		logger.Error(err, "The nodes that were known before cannot be read: nothing is done before the API server answers")
	}
	if len(m.saved.Nodes) > 0 {
		logger.Info("The API server does not answer; working with the nodes that were known before", "file", m.file, "nodes", len(m.saved.Nodes))
	}
	return m.saved
}

func (m *memory) load() error {
	data, err := os.ReadFile(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m.saved)
	}
	if err != nil {
		m.saved = remembered{}
		return fmt.Errorf("reading %s: %w", m.file, err)
	}
	return nil
}

// run keeps in the file what the API server tells, after each wake, until ctx ends.
func (m *memory) run(ctx context.Context, changed wakeup.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		if err := m.save(); err != nil {
			klog.FromContext(ctx).Error(err, "Keeping the nodes for the next start")
		}
		if !wakeup.Pause(ctx, saveInterval) {
			return
		}
	}
}

// save writes the nodes if the API server has told them and the file has others.
func (m *memory) save() error {
	nodes, ok := m.cluster.List()
	if !ok {
		return nil
	}
	data, err := json.Marshal(remembered{nodes, m.cluster.Self()})
	if err != nil || bytes.Equal(data, m.has) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.file), 0o755); err != nil {
		return err
	}
	if err := atomicfile.Write(m.file, data, 0o600); err != nil { // annotations may hold passwords of peers
		return err
	}
	m.has = data
	return nil
}
