package table

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Encoded is an element in the kernel's bytes. A verdict has a chain, any other value bytes.
type Encoded struct {
	Key, Value []byte
	Chain      string // that the element leads to; "": it is no verdict
	Goto       bool   // whether packets stay there, or come back
}

// Kind is what the kernel must know of a set to take elements of it.
type Kind struct {
	Map, Verdicts bool // verdicts are values of a map that lead to chains
}

// Encode turns elements of one set into the kernel's bytes.
func (f Family) Encode(elems []Element) (Kind, []Encoded, error) {
	keyType, valueType, isMap := strings.Cut(f.setType(elems[0].Set), " : ")
	kind := Kind{Map: isMap, Verdicts: valueType == "verdict"}
	out := make([]Encoded, len(elems))
	for i, e := range elems {
		var err error
		if out[i].Key, err = encode(keyType, e.Key); err != nil {
			return kind, nil, err
		}
		switch {
		case e.Value == "":
		case kind.Verdicts:
			verb, chain, _ := strings.Cut(e.Value, " ")
			out[i].Chain, out[i].Goto = chain, verb == "goto"
		default:
			if out[i].Value, err = encode(valueType, e.Value); err != nil {
				return kind, nil, err
			}
		}
	}
	return kind, out, nil
}

// encode turns a key or value in nft's words into the kernel's bytes: each field fills up to four bytes.
func encode(types, text string) ([]byte, error) {
	kinds, words := strings.Split(types, " . "), strings.Split(text, " . ")
	if len(kinds) != len(words) {
		return nil, fmt.Errorf("encoding %q: it is no %s", text, types)
	}

	var out []byte
	for i, kind := range kinds {
		if kind == IPv4.addr || kind == IPv6.addr {
			addr, err := netip.ParseAddr(words[i])
			if err != nil || addr.Is4() != (kind == IPv4.addr) {
				return nil, fmt.Errorf("encoding %q: it is no %s", text, types)
			}
			out = append(out, addr.AsSlice()...)
			continue
		}
		n, err := strconv.ParseUint(words[i], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("encoding %q: %w", text, err)
		}
		switch kind {
		case "mark":
			out = binary.NativeEndian.AppendUint32(out, uint32(n))
		case "inet_service":
			out = append(binary.BigEndian.AppendUint16(out, uint16(n)), 0, 0)
		case "inet_proto":
			out = append(out, byte(n), 0, 0, 0)
		default:
			return nil, fmt.Errorf("encoding %q: unknown type %s", text, kind)
		}
	}
	return slices.Clip(out), nil
}
