// Package credentials owns the instances of Container Credential Guard of an emulated host, which containers with a
// group managed service account have.
package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/internal/atomicfile"
)

// Store owns all instances. It is safe for concurrent use, and calls nobody while it holds its lock. What its file has
// is what it answers: a change that is refused, or that cannot be written, is none.
type Store struct {
	file string

	mu   sync.Mutex
	have hcsd.Credentials
}

// Open returns a store with the instances that are in a file; none if there is no file.
func Open(file string) (*Store, error) {
	s := &Store{file: file, have: hcsd.Credentials{}}
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s.have)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the credentials of HCS: %w", err)
	}
	return s, nil
}

// Modify is HcsModifyServiceSettings.
func (s *Store) Modify(document string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.have)
	if err := next.Modify(document); err != nil {
		return err
	}
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(s.file, data, 0o600); err != nil {
		return fmt.Errorf("writing the credentials of HCS: %w", err)
	}
	s.have = next
	return nil
}

// Properties is HcsGetServiceProperties.
func (s *Store) Properties(query string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hcsd.ServiceProperties(query, s.have)
}

// Domain is the domain that a container is joined to by an instance; see hcsd.Credentials.
func (s *Store) Domain(g *hcsd.CredentialGuard) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.have.Domain(g)
}
