package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"porthole.dev/porthole/hns"
)

// document is a JSON object of HNS's v2 schema.
type document map[string]any

// v2 is the version of the documents that the probe sends.
var v2 = document{"Major": 2, "Minor": 0}

func (d document) String() string {
	data, err := json.Marshal(d)
	if err != nil {
		return "{}" // cannot be: documents here are made of texts and numbers
	}
	return string(data)
}

// text, texts and docs read a field of that type; they are empty if it has another one.
func (d document) text(name string) string {
	s, _ := d[name].(string)
	return s
}

func (d document) texts(name string) []string {
	var out []string
	list, _ := d[name].([]any)
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func (d document) docs(name string) []document {
	var out []document
	list, _ := d[name].([]any)
	for _, v := range list {
		if doc, ok := v.(map[string]any); ok {
			out = append(out, doc)
		}
	}
	return out
}

// json returns a field as JSON, "" if it is missing or empty.
func (d document) json(name string) string {
	if list, ok := d[name].([]any); d[name] == nil || ok && len(list) == 0 {
		return ""
	}
	data, err := json.Marshal(d[name])
	if err != nil {
		return ""
	}
	return string(data)
}

// id is the object's id in HNS's spelling. HNS writes "ID"; hcsshim also reads "Id".
func (d document) id() string {
	for name, v := range d {
		if s, ok := v.(string); ok && strings.EqualFold(name, "ID") {
			return s
		}
	}
	return ""
}

// subnet returns the first subnet of a network and its default gateway.
func (d document) subnet() (netip.Prefix, netip.Addr) {
	var gateway netip.Addr
	for _, ipam := range d.docs("Ipams") {
		for _, s := range ipam.docs("Subnets") {
			prefix, err := netip.ParsePrefix(s.text("IpAddressPrefix"))
			if err != nil {
				continue
			}
			for _, r := range s.docs("Routes") {
				gateway, _ = netip.ParseAddr(r.text("NextHop"))
			}
			return prefix, gateway
		}
	}
	return netip.Prefix{}, gateway
}

// queryFor is a query with a filter, which HNS takes as JSON in a string.
func queryFor(filter document) string {
	q := document{"SchemaVersion": v2}
	if filter != nil {
		q["Filter"] = filter.String()
	}
	return q.String()
}

// service is HNS with documents in place of text.
type service struct{ hns HNS }

// ids returns the ids of the objects of a kind that fit the filter.
func (s service) ids(ctx context.Context, kind string, filter document) ([]string, error) {
	text, err := s.hns.Enumerate(ctx, kind, queryFor(filter))
	if err != nil {
		return nil, err
	}
	var ids []string
	if err := json.Unmarshal([]byte(text), &ids); err != nil {
		return nil, fmt.Errorf("HNS's list of %ss is not understood: %w", kind, err)
	}
	return ids, nil
}

// query returns one object's document.
func (s service) query(ctx context.Context, kind, id string) (document, error) {
	text, err := s.hns.Query(ctx, kind, id)
	if err != nil {
		return nil, err
	}
	var doc document
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("HNS's document of %s %s is not understood: %w", kind, id, err)
	}
	return doc, nil
}

// create makes an object and returns its document, which must have an id: without one it could not
// be removed.
func (s service) create(ctx context.Context, kind, network string, settings document) (document, error) {
	text, err := s.hns.Create(ctx, kind, network, settings.String())
	if err != nil {
		return nil, err
	}
	var doc document
	if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.id() == "" {
		return nil, fmt.Errorf("HNS made a %s and its document is not understood: %q", kind, text)
	}
	return doc, nil
}

// each calls f with each object of a kind. An object that vanishes meanwhile is left out.
func (s service) each(ctx context.Context, kind string, f func(id string, doc document)) error {
	ids, err := s.ids(ctx, kind, nil)
	if err != nil {
		return err
	}
	for _, id := range ids {
		doc, err := s.query(ctx, kind, id)
		if hns.IsAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		f(id, doc)
	}
	return nil
}

// attachment returns "attached" if an endpoint is in a namespace, else "detached".
func attachment(endpoint document) string {
	if ns := hns.NormalID(endpoint.text("HostComputeNamespace")); ns == "" || ns == hns.NoNamespace {
		return "detached"
	}
	return "attached"
}

// spelling returns in which form HNS wrote an id.
func spelling(id string) string {
	how := "mixed"
	switch id {
	case strings.ToUpper(id):
		how = "upper case"
	case strings.ToLower(id):
		how = "lower case"
	}
	if strings.HasPrefix(id, "{") {
		return how + " in braces"
	}
	return how
}

// firstIPv4 is not valid without one.
func firstIPv4(addrs []netip.Addr) netip.Addr {
	for _, a := range addrs {
		if a.Is4() {
			return a
		}
	}
	return netip.Addr{}
}

// yesNo and sameOr are the words of lines.
func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func sameOr(same bool, otherwise string) string {
	if same {
		return "same"
	}
	return otherwise
}

// first makes a call of the first interface. An answer without success is an error.
func (s service) first(ctx context.Context, method, path, body string, to any) error {
	text, err := s.hns.First(ctx, method, path, body)
	if err != nil {
		return err
	}

	var said struct {
		Success   bool
		Error     string
		ErrorCode uint32
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return fmt.Errorf("the answer to %s %s is not understood: %w", method, path, err)
	}
	if !said.Success {
		return &hns.Error{Doing: method + " " + path, Class: hns.ClassOfCode(said.ErrorCode),
			Code: hns.ReduceCode(said.ErrorCode), Err: fmt.Errorf("%s", said.Error)}
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal([]byte(text), to)
}
