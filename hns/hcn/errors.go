package hcn

// reduced is an HRESULT as hcsshim gives it: those of facility 7 as the Win32 code in them.
func reduced(code uint32) uint32 {
	if code&0x1fff0000 == 0x00070000 {
		return code & 0xffff
	}
	return code
}
