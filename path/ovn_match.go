package path

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// truth is whether a match holds: perhaps if it speaks of something that is not known here.
type truth int

const (
	no truth = iota
	perhaps
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// logicalPacket is what the match of an ACL is about.
type logicalPacket struct {
	in, out  string // logical ports
	src, dst netip.Addr
	protocol string
	port     uint16 // 0: any, and then any protocol too
}

// matches evaluates a match in OVN's language (ovn-sb(5), table Logical_Flow) for the first packet of a connection.
// Fields that are not known here, and what cannot be read, give perhaps.
func (p logicalPacket) matches(text string, sets map[string][]string) truth {
	words, ok := splitMatch(text)
	m := matcher{packet: p, sets: sets, words: words}
	result := m.or()
	if !ok || m.failed || len(m.words) > 0 {
		return perhaps
	}
	return result
}

// matcher reads a match from left to right.
type matcher struct {
	packet logicalPacket
	sets   map[string][]string
	words  []string // that are left
	failed bool     // what was read is no match, or one of a kind that is not known here
}

// splitMatch returns the words of a match. A string keeps its first quotation mark, so that it is no field.
func splitMatch(text string) (words []string, ok bool) {
	pairs := []string{"&&", "||", "==", "!=", "<=", ">="}
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		n := 0
		switch {
		case text[0] == '"':
			end := strings.IndexByte(text[1:], '"')
			if end < 0 {
				return nil, false
			}
			words = append(words, text[:end+1])
			text = text[end+2:]
			continue
		case slices.Contains(pairs, text[:min(2, len(text))]):
			n = 2
		case strings.ContainsRune("(){},!<>", rune(text[0])):
			n = 1
		default:
			n = strings.IndexFunc(text,
				func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`(){},!<>=&|"`, r) })
			if n < 0 {
				n = len(text)
			}
		}

		if n == 0 {
			return nil, false
		}
		words = append(words, text[:n])
		text = text[n:]
	}
	return words, true
}

// next returns the next word, "" at the end.
func (m *matcher) next() string {
	if len(m.words) == 0 {
		return ""
	}
	return m.words[0]
}

// take removes the next word if it is this one.
func (m *matcher) take(word string) bool {
	if m.next() != word || word == "" {
		return false
	}
	m.words = m.words[1:]
	return true
}

func (m *matcher) or() truth {
	result := m.and()
	for m.take("||") {
		result = max(result, m.and())
	}
	return result
}

func (m *matcher) and() truth {
	result := m.term()
	for m.take("&&") {
		result = min(result, m.term())
	}
	return result
}

func (m *matcher) term() truth {
	switch {
	case m.take("!"):
		return yes - m.term()
	case m.take("("):
		result := m.or()
		m.failed = m.failed || !m.take(")")
		return result
	}
	left := m.operand()
	operator := m.next()
	if !slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, operator) {
		return m.predicate(left)
	}

	m.words = m.words[1:]
	right := m.operand()
	if slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, m.next()) || len(left) != 1 {
		m.failed = true // 1 < tcp.dst < 5, and constants before the field
		return perhaps
	}
	return m.compare(left[0], operator, right)
}

// operand reads a word, or the words in braces.
func (m *matcher) operand() (list []string) {
	if !m.take("{") {
		word := m.next()
		if word == "" || strings.ContainsAny(word, "(){},!<>=&|") {
			m.failed = true
			return nil
		}
		m.words = m.words[1:]
		return m.members(word)
	}
	for !m.take("}") {
		word := m.next()
		if word == "" {
			m.failed = true
			return nil
		}
		m.words = m.words[1:]
		if word != "," {
			list = append(list, m.members(word)...)
		}
	}
	return list
}

// members returns what a set stands for; other words stand for themselves.
func (m *matcher) members(word string) []string {
	if !strings.HasPrefix(word, "$") && !strings.HasPrefix(word, "@") {
		return []string{word}
	}
	set, known := m.sets[word]
	m.failed = m.failed || !known
	return set
}

// predicate evaluates a word that is no comparison.
func (m *matcher) predicate(list []string) truth {
	if len(list) != 1 {
		m.failed = true
		return perhaps
	}
	p := m.packet
	switch list[0] {
	case "1", "ip", "ct.new", "ct.trk":
		return yes
	case "0", "arp", "ct.est", "ct.rpl", "ct.rel", "ct.inv", "ip.frag", "ip.later_frag":
		return no
	case "ip4":
		return truthOf(p.dst.Is4())
	case "ip6":
		return truthOf(p.dst.Is6())
	case "tcp", "udp", "sctp":
		return p.is(list[0])
	case "icmp", "icmp4", "icmp6":
		if p.port == 0 {
			return perhaps
		}
		return no
	}
	return perhaps
}

// is reports whether the packet is of a protocol.
func (p logicalPacket) is(protocol string) truth {
	if p.port == 0 {
		return perhaps
	}
	return truthOf(p.protocol == protocol)
}

// compare evaluates FIELD OPERATOR CONSTANTS.
func (m *matcher) compare(field, operator string, constants []string) truth {
	if operator != "==" && len(constants) != 1 {
		return perhaps
	}
	result := no
	for _, c := range constants {
		result = max(result, m.packet.compare(field, operator, c))
	}
	return result
}

func (p logicalPacket) compare(field, operator, constant string) truth {
	switch field {
	case "inport":
		return p.same(p.in, operator, strings.TrimPrefix(constant, `"`))
	case "outport":
		return p.same(p.out, operator, strings.TrimPrefix(constant, `"`))
	case "ip4.src", "ip6.src":
		return within(p.src, field, operator, constant)
	case "ip4.dst", "ip6.dst":
		return within(p.dst, field, operator, constant)
	case "tcp.dst", "udp.dst", "sctp.dst":
		protocol, _, _ := strings.Cut(field, ".")
		n, err := strconv.ParseUint(constant, 0, 16)
		if err != nil || p.port == 0 {
			return perhaps
		}
		return min(p.is(protocol), ordered(int(p.port), operator, int(n)))
	case "tcp.src", "udp.src", "sctp.src":
		protocol, _, _ := strings.Cut(field, ".")
		return min(p.is(protocol), perhaps)
	}
	return perhaps
}

func (p logicalPacket) same(port, operator, name string) truth {
	switch {
	case port == "": // ACLs before routing do not know it
		return perhaps
	case operator == "==":
		return truthOf(port == name)
	case operator == "!=":
		return truthOf(port != name)
	}
	return perhaps
}

// within compares an address with an address or a range. A comparison of another family never holds.
func within(addr netip.Addr, field, operator, constant string) truth {
	if addr.Is4() != strings.HasPrefix(field, "ip4.") {
		return no
	}
	prefix, err := netip.ParsePrefix(constant)
	if single, e := netip.ParseAddr(constant); e == nil {
		prefix = netip.PrefixFrom(single, single.BitLen())
		err = nil
	}
	switch {
	case err != nil:
		return perhaps
	case operator == "==":
		return truthOf(prefix.Contains(addr))
	case operator == "!=":
		return truthOf(!prefix.Contains(addr))
	}
	return perhaps
}

func ordered(have int, operator string, want int) truth {
	switch operator {
	case "==":
		return truthOf(have == want)
	case "!=":
		return truthOf(have != want)
	case "<":
		return truthOf(have < want)
	case "<=":
		return truthOf(have <= want)
	case ">":
		return truthOf(have > want)
	}
	return truthOf(have >= want)
}
