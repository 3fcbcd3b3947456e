package routes

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/routes/table"
)

// NodesFile is the file of a memory in the folder for state.
const NodesFile = "nodes.json"

const (
	// patience is how long an agent that starts waits for the API server before it works with the nodes of the file:
	// short beside the time in which peers keep the routes of a node that restarts (bgp's restartTime, 30 s).
	patience = 5 * time.Second // and a node that boots shall have its pod network 10 s after HNS answers
	// saveInterval is the least time between two writes of the file.
	saveInterval = 10 * time.Second
	// muchContent is from how many bytes of the file on the memory that its text took is given back at once.
	muchContent = 256 << 10
)

// memory is a cluster whose nodes outlive this process: an agent that starts while the API server is away works with
// those that an earlier one knew. A node that boots then makes its pod network of before. The mode bgp needs that
// most, because peers drop the routes of a node whose agent opens no session. It is safe for concurrent use.
type memory struct {
	cluster
	file string
	from time.Time // when the nodes of the file are good enough

	mu      sync.Mutex
	read    bool       // the file was read
	told    bool       // it was said that the nodes of the file are used
	saved   remembered // the file, as an earlier process left it
	drained bool       // what the file is to have

	saving sync.Mutex        // held while the file is written
	has    [sha256.Size]byte // sum of the file's content; zero: not known
}

// remembered is the content of the file.
type remembered struct {
	Nodes []table.Node
	Self  *corev1.Node // this node, as cluster.Self returns it
	// Drained: the node was cordoned, and no pods were left that a drain evicts.
	Drained bool
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
	m.readOnce()
	if len(m.saved.Nodes) > 0 && !m.told {
		m.told = true
		memoryLog().Info("The API server does not answer; working with the nodes that were known before", "file",
			m.file, "nodes", len(m.saved.Nodes))
	}
	return m.saved
}

func memoryLog() klog.Logger { return klog.Background().WithName("routes") }

// readOnce reads the file, if that has not been done. The caller holds mu.
func (m *memory) readOnce() {
	if m.read {
		return
	}
	m.read = true
	if err := m.load(); err != nil {
		memoryLog().
			Error(err, "The nodes that were known before cannot be read: nothing is done before the API server answers")
	}
	m.drained = m.saved.Drained
}

// wasDrained reports whether this node was drained when its pods were known last. A nil memory knows of nothing.
func (m *memory) wasDrained() bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readOnce()
	return m.drained
}

// setDrained keeps whether this node is drained, before it returns if that is new. A nil memory keeps nothing.
func (m *memory) setDrained(drained bool) {
	if m == nil || m.wasDrained() == drained {
		return
	}
	m.mu.Lock()
	m.drained = drained
	m.mu.Unlock()
	if err := m.save(); err != nil {
		memoryLog().Error(err, "Keeping whether the node is drained for the next start", "drained", drained)
	}
}

// load leaves the memory empty if there is no file, and if it cannot be read.
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
	m.saving.Lock()
	defer m.saving.Unlock()
	nodes, ok := m.cluster.List()
	if !ok {
		return nil
	}
	data, err := json.Marshal(remembered{nodes, m.cluster.Self(), m.wasDrained()})
	sum := sha256.Sum256(data)
	if err != nil || sum == m.has {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.file), 0o755); err != nil {
		return err
	}
	if err := atomicfile.Write(m.file, data, 0o600); err != nil { // annotations may hold passwords of peers
		return err
	}
	m.has = sum
	if len(data) > muchContent {
		debug.FreeOSMemory() // the text of 5,000 nodes is garbage now, and nothing else would soon be collected
	}
	return nil
}
