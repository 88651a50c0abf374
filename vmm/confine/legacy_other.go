//go:build !amd64

package confine

var legacy []uint32
