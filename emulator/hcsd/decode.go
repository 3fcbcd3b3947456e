package hcsd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Decode reads a document strictly: a field that the type does not have, one that differs in case, one that is there
// twice, or anything after the document is an error with the code HCS_E_INVALID_JSON. An empty text is an empty
// document.
func Decode(text string, into any) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return ErrInvalidJSON.WithText("%v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return ErrInvalidJSON.WithText("there is more after the document")
	}
	if err := checkNames(json.NewDecoder(bytes.NewReader([]byte(text))), reflect.TypeOf(into)); err != nil {
		return ErrInvalidJSON.WithText("%v", err)
	}
	return nil
}

// checkNames reads one value and compares the names of fields with those of t. It is needed because package json takes
// any case, and the last of two fields. A nil t, and any type without fields, takes every name once.
func checkNames(d *json.Decoder, t reflect.Type) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	switch token {
	case json.Delim('['):
		var element reflect.Type
		if t != nil && t.Kind() == reflect.Slice {
			element = t.Elem()
		}
		for d.More() {
			if err := checkNames(d, element); err != nil {
				return err
			}
		}
		_, err = d.Token()
	case json.Delim('{'):
		err = checkFields(d, t)
	}
	return err
}

// checkFields reads the rest of an object.
func checkFields(d *json.Decoder, t reflect.Type) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if seen[name] {
			return fmt.Errorf("field %q is there twice", name)
		}
		seen[name] = true

		// Where t is nil, fields of any name are right; only doubles are looked for.
		var of reflect.Type
		switch {
		case t == nil:
		case t.Kind() == reflect.Map:
			of = t.Elem()
		case t.Kind() == reflect.Struct:
			field, ok := fieldNamed(t, name)
			if !ok {
				return fmt.Errorf("unknown field %q", name)
			}
			of = field
		}
		if err := checkNames(d, of); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// fieldNamed finds the type of a field by its exact name in JSON.
func fieldNamed(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if tag == "" {
			tag = t.Field(i).Name
		}
		if tag == name {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}
