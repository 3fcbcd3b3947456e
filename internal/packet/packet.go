// Package packet reads Ethernet frames: addresses and ports, and what VXLAN and Geneve carry inside.
package packet

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
)

// Packet is one frame. Fields that its kind does not have are zero.
type Packet struct {
	SrcMAC, DstMAC net.HardwareAddr
	Src, Dst       netip.Addr
	Length         int   // of the IP packet; one that was not cut into segments yet is longer than the MTU
	TTL            uint8 // or hop limit
	Protocol       uint8 // of IP

	SrcPort, DstPort uint16 // TCP, UDP
	ICMP             uint8  // type of ICMP or ICMPv6
	Code             uint8
	Seq, Ack         uint32 // TCP
	Flags            uint8  // TCP: FlagSYN, FlagACK, …

	// Encap is "vxlan" or "geneve" if the packet carries another, Inner; VNI is that of the encapsulation.
	Encap string
	VNI   uint32
	Inner *Packet
}

// Protocols of IP (IANA).
const (
	ICMPv4 = 1
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
)

// Flags of TCP (RFC 9293).
const (
	FlagSYN = 2
	FlagRST = 4
	FlagACK = 16
)

// EchoRequest is a type of ICMP (RFC 792).
const EchoRequest = 8

// tunnels are the encapsulations by their UDP port: IANA's, and flannel's default on Linux, 8472.
var tunnels = map[uint16]string{4789: "vxlan", 8472: "vxlan", 6081: "geneve"}

// String returns the packet in one line, and what it carries behind it.
func (p Packet) String() string {
	at := func(a netip.Addr, port uint16) string {
		if port == 0 {
			return a.String()
		}
		return netip.AddrPortFrom(a, port).String()
	}
	text := fmt.Sprintf("%s > %s proto %d length %d ttl %d", at(p.Src, p.SrcPort), at(p.Dst, p.DstPort), p.Protocol,
		p.Length, p.TTL)
	if p.Protocol == ICMPv4 || p.Protocol == ICMPv6 {
		text += fmt.Sprintf(" icmp %d/%d", p.ICMP, p.Code)
	}
	if p.Inner != nil {
		text += fmt.Sprintf(" %s vni %d [%s > %s: %s]", p.Encap, p.VNI, p.Inner.SrcMAC, p.Inner.DstMAC, p.Inner)
	}
	return text
}

// Decode reads an Ethernet frame; ok is false for one that carries no IP. The Packet keeps parts of the frame.
func Decode(frame []byte) (p Packet, ok bool) {
	if len(frame) < 14 {
		return p, false
	}
	p.DstMAC = net.HardwareAddr(frame[:6])
	p.SrcMAC = net.HardwareAddr(frame[6:12])
	switch data := frame[14:]; binary.BigEndian.Uint16(frame[12:]) {
	case 0x0800:
		return p, p.ipv4(data)
	case 0x86dd:
		return p, p.ipv6(data)
	}
	return p, false
}

// ipv4 reads a packet of RFC 791. Of one that is no first fragment it reads no ports.
func (p *Packet) ipv4(data []byte) bool {
	if len(data) < 20 || len(data) < int(data[0]&15)*4 {
		return false
	}
	p.Src, _ = netip.AddrFromSlice(data[12:16])
	p.Dst, _ = netip.AddrFromSlice(data[16:20])
	p.Length = int(binary.BigEndian.Uint16(data[2:]))
	p.TTL = data[8]
	p.Protocol = data[9]
	if binary.BigEndian.Uint16(data[6:])&0x1fff == 0 { // the offset of the fragment
		p.transport(data[int(data[0]&15)*4:])
	}
	return true
}

// ipv6 reads a packet of RFC 8200 without extension headers.
func (p *Packet) ipv6(data []byte) bool {
	if len(data) < 40 {
		return false
	}
	p.Src, _ = netip.AddrFromSlice(data[8:24])
	p.Dst, _ = netip.AddrFromSlice(data[24:40])
	p.Length = 40 + int(binary.BigEndian.Uint16(data[4:]))
	p.TTL = data[7]
	p.Protocol = data[6]
	p.transport(data[40:])
	return true
}

func (p *Packet) transport(data []byte) {
	switch {
	case len(data) < 8:
	case p.Protocol == ICMPv4, p.Protocol == ICMPv6:
		p.ICMP, p.Code = data[0], data[1]
	case p.Protocol == TCP, p.Protocol == UDP:
		p.SrcPort = binary.BigEndian.Uint16(data)
		p.DstPort = binary.BigEndian.Uint16(data[2:])
		if p.Protocol == UDP && tunnels[p.DstPort] != "" {
			p.tunnel(tunnels[p.DstPort], data[8:])
		}
		if p.Protocol == TCP && len(data) >= 20 {
			p.Seq = binary.BigEndian.Uint32(data[4:])
			p.Ack = binary.BigEndian.Uint32(data[8:])
			p.Flags = data[13]
		}
	}
}

// tunnel reads what VXLAN (RFC 7348) and Geneve (RFC 8926) carry. Both have the VNI in the same place.
func (p *Packet) tunnel(kind string, data []byte) {
	if len(data) < 8 {
		return
	}
	header := 8
	if kind == "geneve" {
		header += int(data[0]&63) * 4
	}
	if len(data) < header {
		return
	}
	if inner, ok := Decode(data[header:]); ok {
		p.Encap = kind
		p.VNI = binary.BigEndian.Uint32(data[4:]) >> 8
		p.Inner = &inner
	}
}
