package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// castagnoli is a sum that processors compute. Programs are large, and a second join takes less than a second.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Program is the step of one program file: a copy of the one that is running, or that lies beside it.
type Program struct {
	Name string // ID of the step
	From string
	To   string
	// OnlyNew: a file that is there is left alone, whatever it is.
	OnlyNew bool
	// ForPods: the container runtime calls the program as long as a pod is left.
	ForPods bool
}

// ID returns the name.
func (p Program) ID() string { return p.Name }

// Wanted returns the hash of the source.
func (p Program) Wanted() any {
	content, err := os.ReadFile(p.From)
	if err != nil {
		return map[string]string{"path": p.To, "problem": err.Error()} // Apply says it again
	}
	return p.value(content)
}

func (p Program) value(content []byte) any {
	if p.OnlyNew {
		return map[string]string{"path": p.To}
	}
	return map[string]any{"path": p.To, "size": len(content),
		"sum": fmt.Sprintf("crc32:%08x", crc32.Checksum(content, castagnoli))}
}

// Observe returns the hash of the file that is there.
func (p Program) Observe(context.Context) (any, error) {
	content, err := os.ReadFile(p.To)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a program: %w", err)
	}
	return p.value(content), nil
}

// Apply copies the program. A running program that is replaced goes on with the old file.
func (p Program) Apply(context.Context) error {
	content, err := os.ReadFile(p.From)
	if err != nil {
		return fmt.Errorf("reading a program: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(p.To), 0o755); err != nil {
		return fmt.Errorf("creating a folder: %w", err)
	}
	return write(p.To, content, 0o755)
}

// Undo removes the program if nothing was there before.
func (p Program) Undo(_ context.Context, before []byte) error {
	if !bytes.Equal(before, []byte("null")) {
		return nil
	}
	return errors.Join(remove(p.To), prune(filepath.Dir(p.To)))
}
