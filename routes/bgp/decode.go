package bgp

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fieldError says which field cannot be as it is, and what can.
type fieldError struct {
	field string // like peers[0].port
	text  string // follows the field in a sentence
}

func (e *fieldError) Error() string {
	if e.field == "" { // the document itself
		return strings.TrimLeft(e.text, ": ")
	}
	return e.field + e.text
}

// wrong returns a fieldError. Its text begins with a space or a colon.
func wrong(field, format string, args ...any) error {
	return &fieldError{field, fmt.Sprintf(format, args...)}
}

// document is YAML or JSON with the line of each field.
type document struct {
	lines map[string]int
}

// decode reads YAML or JSON strictly: unknown and repeated fields are errors. Its errors name line and field, and what
// can be. name is how they call the whole document; "" if it is not named.
func decode(text []byte, name string, into any) (document, error) {
	d := document{lines: map[string]int{}}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return d, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if node.Kind == 0 {
		return d, nil // nothing but comments
	}
	return d, d.at(d.value(node.Content[0], reflect.ValueOf(into).Elem(), name))
}

// at adds the line to an error about a field of the document, or about one that should be in a structure of it.
func (d document) at(err error) error {
	var wrong *fieldError
	if !errors.As(err, &wrong) {
		return err
	}
	for field := wrong.field; ; field = field[:strings.LastIndexAny(field, ".[")] {
		if line := d.lines[field]; line > 0 {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if !strings.ContainsAny(field, ".[") {
			return err
		}
	}
}

// value reads a value of the document into a field of that name.
func (d document) value(n *yaml.Node, into reflect.Value, field string) error {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	// The first line on which a field is seen is the one that errors name.
	if d.lines[field] == 0 {
		d.lines[field] = n.Line
	}
	if n.Tag == "!!null" {
		return nil
	}
	// Types that read themselves, such as times, get the text of the node.
	if own, ok := into.Addr().Interface().(json.Unmarshaler); ok {
		return d.own(n, own, field)
	}

	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return d.value(n, into.Elem(), field)
	case reflect.Struct:
		return d.fields(n, into, field)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return wrong(field, ": this is a list: begin each of its lines with a dash")
		}
		into.Set(reflect.MakeSlice(into.Type(), len(n.Content), len(n.Content)))
		for i, element := range n.Content {
			if err := d.value(element, into.Index(i), fmt.Sprintf("%s[%d]", field, i)); err != nil {
				return err
			}
		}
		return nil
	default:
		return scalar(n, into, field)
	}
}

// own lets a value read itself. It gets what was written: 1.10 as an AS number is no fraction.
func (d document) own(n *yaml.Node, into json.Unmarshaler, field string) error {
	text := n.Value
	if n.Tag == "!!str" {
		text = strconv.Quote(text)
	}
	if n.Kind != yaml.ScalarNode {
		return wrong(field, ": one value is wanted here, no list and no fields")
	}
	if err := into.UnmarshalJSON([]byte(text)); err != nil {
		return wrong(field, ": %v", err)
	}
	return nil
}

// fields reads a structure.
func (d document) fields(n *yaml.Node, into reflect.Value, field string) error {
	known := into.Type()
	if n.Kind != yaml.MappingNode {
		return wrong(field, ": fields are wanted here, as NAME: VALUE; known: %s", names(known))
	}
	dot := ""
	if field != "" {
		dot = "."
	}

	for i := 0; i < len(n.Content); i += 2 {
		key, name := n.Content[i], n.Content[i].Value
		path := field + dot + name
		index, ok := indexOf(known, name)
		if !ok {
			return fmt.Errorf("line %d: unknown field %s; known: %s", key.Line, path, names(known))
		}
		if d.lines[path] > 0 {
			return fmt.Errorf("line %d: %s is there twice: line %d has it too", key.Line, path, d.lines[path])
		}
		d.lines[path] = key.Line
		if err := d.value(n.Content[i+1], into.Field(index), path); err != nil {
			return err
		}
	}
	return nil
}

// indexOf returns which field of a structure has that name.
func indexOf(t reflect.Type, name string) (int, bool) {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("json") == name {
			return i, true
		}
	}
	return 0, false
}

// names returns the names of the fields of a structure, with commas.
func names(t reflect.Type) string {
	list := make([]string, t.NumField())
	for i := range list {
		list[i] = t.Field(i).Tag.Get("json")
	}
	return strings.Join(list, ", ")
}

// scalar reads a text, a whole number, or true and false.
func scalar(n *yaml.Node, into reflect.Value, field string) error {
	if n.Kind != yaml.ScalarNode {
		return wrong(field, ": one value is wanted here, no list and no fields")
	}
	switch into.Kind() {
	case reflect.String:
		into.SetString(n.Value)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			return wrong(field, " %q is neither true nor false", n.Value)
		}
		into.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int:
		number, err := strconv.Atoi(n.Value)
		if err != nil {
			return wrong(field, " %q is not a whole number", n.Value)
		}
		into.SetInt(int64(number))
	default:
		return wrong(field, ": no value of type %s can be read", into.Type())
	}
	return nil
}
