package hcn

import (
	"encoding/hex"
	"strings"
	"sync"

	"porthole.dev/porthole/hns"
)

// spelling remembers how HNS writes ids, so that they are sent to HNS as it wrote them. This program uses lower case,
// so that ids can be compared. HNS mostly uses upper case, and it is not documented whether its filters compare ids or
// texts (docs/windows-facts.md). The zero value is ready. It is safe for concurrent use. An id in lower case takes no
// memory.
type spelling struct {
	mu    sync.Mutex
	upper map[[16]byte]struct{}
	other map[[16]byte]string // in neither case alone, or in braces
}

// note remembers ids as HNS wrote them.
func (s *spelling) note(written ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range written {
		s.put(id)
	}
}

// only remembers these ids as HNS wrote them, and forgets all others.
func (s *spelling) only(written []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upper, s.other = nil, nil
	for _, id := range written {
		s.put(id)
	}
}

// put remembers one id. The caller holds mu. It ignores what is not a GUID.
func (s *spelling) put(written string) {
	normal := hns.NormalID(written)
	key, ok := guidBytes(normal)
	if !ok {
		return
	}

	delete(s.upper, key)
	delete(s.other, key)
	switch written {
	case normal:
	case strings.ToUpper(normal):
		if s.upper == nil {
			s.upper = map[[16]byte]struct{}{}
		}
		s.upper[key] = struct{}{}
	default:
		if s.other == nil {
			s.other = map[[16]byte]string{}
		}
		s.other[key] = written
	}
}

// forget frees what is remembered of an id that is gone.
func (s *spelling) forget(normal string) {
	if key, ok := guidBytes(normal); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.upper, key)
		delete(s.other, key)
	}
}

// of returns an id as HNS wrote it last, or unchanged if HNS never wrote it.
func (s *spelling) of(normal string) string {
	key, ok := guidBytes(normal)
	if !ok {
		return normal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.upper[key]; ok {
		return strings.ToUpper(normal)
	}
	if written, ok := s.other[key]; ok {
		return written
	}
	return normal
}

// guidBytes reads an id without braces; ok is false for what is none.
func guidBytes(id string) (key [16]byte, ok bool) {
	if len(id) != 36 {
		return key, false
	}
	n, err := hex.Decode(key[:], []byte(strings.ReplaceAll(id, "-", "")))
	return key, err == nil && n == len(key)
}
