package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
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

// Encode returns the document of a snapshot. Values that are as in the last document are those of the last document:
// of a thousand pods few change, and the rest is not garbage then. last may be nil.
func Encode(s Snapshot, last Document) (Document, error) {
	d := make(Document, len(s.Nodes)+len(s.Pods)+len(s.Services)+1)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	// Texts of the API may hold < and &; the page gets them as they are.
	encoder.SetEscapeHTML(false)
	var first error
	// The bytes of the buffer are copied only for what has changed.
	put := func(key string, value any) {
		text.Reset()
		if err := encoder.Encode(value); err != nil && first == nil {
			first = fmt.Errorf("encoding %s: %w", key, err)
		}
		now := bytes.TrimSuffix(text.Bytes(), []byte("\n"))
		if was, had := last[key]; had && bytes.Equal(was, now) {
			d[key] = was
			return
		}
		d[key] = bytes.Clone(now)
	}

	// The keys are the kind and the name of an object; "cluster" is what is there once.
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

// Write writes a document as JSON. Its values are written as they are: of 2,000 pods there is no second copy in memory.
func (d Document) Write(w io.Writer) error {
	between := "{"
	for key, value := range d {
		name, err := json.Marshal(key)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", key, err)
		}
		for _, part := range [][]byte{[]byte(between), name, {':'}, value} {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		between = ","
	}
	_, err := io.WriteString(w, strings.TrimSuffix(between, ",")+"}")
	return err
}
