package model

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Document is a Snapshot as the browser gets it: one JSON value for each object, by a key such as "pod/default/web".
type Document map[string]json.RawMessage

// Patch leads from one Document to the next.
type Patch struct {
	Set  Document `json:"set,omitempty"`
	Gone []string `json:"gone,omitempty"`
}

// Empty reports whether nothing changed.
func (p Patch) Empty() bool { return len(p.Set) == 0 && len(p.Gone) == 0 }

// Encode returns the document of a snapshot.
func Encode(s Snapshot) (Document, error) {
	d := make(Document, len(s.Nodes)+len(s.Pods)+len(s.Services)+1)
	var first error
	put := func(key string, value any) {
		b, err := json.Marshal(value)
		if err != nil && first == nil {
			first = fmt.Errorf("encoding %s: %w", key, err)
		}
		d[key] = b
	}

	put("cluster", s.Cluster)
	for i := range s.Nodes {
		put("node/"+s.Nodes[i].Name, &s.Nodes[i])
	}
	for i := range s.Pods {
		put("pod/"+s.Pods[i].Key, &s.Pods[i])
	}
	for i := range s.Services {
		put("service/"+s.Services[i].Key, &s.Services[i])
	}
	return d, first
}

// Diff returns what leads from one document to another.
func Diff(from, to Document) (p Patch) {
	for key, value := range to {
		if old, had := from[key]; !had || !bytes.Equal(old, value) {
			if p.Set == nil {
				p.Set = Document{}
			}
			p.Set[key] = value
		}
	}
	for key := range from {
		if _, has := to[key]; !has {
			p.Gone = append(p.Gone, key)
		}
	}
	return p
}
