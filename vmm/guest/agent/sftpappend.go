//go:build linux

package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// What is read of SFTP's packets, each LENGTH TYPE ID ... (draft-ietf-secsh-filexfer-02).
const (
	sftpOpen, sftpClose, sftpWrite, sftpStatus, sftpHandle = 3, 4, 6, 101, 102

	sftpForAppend          = 4 // a flag of sftpOpen
	sftpDenied, sftpFailed = 3, 4
	sftpHeader             = 4 + 1 + 4
	sftpLongest            = 256 << 10 // as the library's
)

// appends is the stream of an SFTP server whose library leaves the end of a file to the client, which
// leaves it to the server (findings/sftp-append.sh). What a client writes to a file that it opened for
// appending goes to the file's end here, where the kernel says that is; the server sees all else.
type appends struct {
	in  io.Reader
	out io.WriteCloser

	packet bytes.Buffer // that the server reads

	mu      sync.Mutex          // guards the rest; a packet's writer has it from its beginning to its end
	rest    int                 // of the packet that the server writes
	opens   map[uint32]string   // what is opened for appending, by the request's ID
	handles map[string]*os.File // what is open for that, by the server's handle
}

func newAppends(in io.Reader, out io.WriteCloser) *appends {
	return &appends{in: in, out: out, opens: map[uint32]string{}, handles: map[string]*os.File{}}
}

// Read is the server's: the client's packets but for those that are answered here.
func (a *appends) Read(p []byte) (int, error) {
	for a.packet.Len() == 0 {
		if err := a.next(); err != nil {
			return 0, err
		}
	}
	return a.packet.Read(p)
}

func (a *appends) next() error {
	var length [4]byte
	if _, err := io.ReadFull(a.in, length[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > sftpLongest {
		return errors.New("a packet is too long")
	}
	a.packet.Write(length[:])
	if _, err := io.CopyN(&a.packet, a.in, int64(n)); err != nil {
		return io.ErrUnexpectedEOF
	}
	if a.answer(a.packet.Bytes()) {
		a.packet.Reset()
	}
	return nil
}

// answer looks at a client's packet, and answers it if it writes to a file's end.
func (a *appends) answer(packet []byte) bool {
	if len(packet) < sftpHeader {
		return false
	}
	id := binary.BigEndian.Uint32(packet[5:])
	name, after := sftpString(packet[sftpHeader:])
	a.mu.Lock()
	f := a.handles[string(name)]
	switch packet[4] {
	case sftpOpen:
		if len(after) >= 4 && binary.BigEndian.Uint32(after)&sftpForAppend != 0 {
			a.opens[id] = string(name)
		}
	case sftpClose:
		delete(a.handles, string(name))
	}
	a.mu.Unlock()
	switch {
	case f != nil && packet[4] == sftpClose:
		f.Close()
	case f != nil && packet[4] == sftpWrite && len(after) >= 8:
		data, _ := sftpString(after[8:]) // after the offset
		_, err := f.Write(data)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.out.Write(sftpResult(id, err)) // a client that went sends nothing more
		return true
	}
	return false
}

// Write is the server's: a packet or a part of one, and its handles of files that are opened for appending.
func (a *appends) Write(p []byte) (int, error) {
	if a.rest == 0 {
		a.mu.Lock()
		a.rest = 4 + int(binary.BigEndian.Uint32(p))
		a.opened(p)
	}
	n, err := a.out.Write(p)
	if a.rest -= len(p); a.rest <= 0 || err != nil {
		a.rest = 0
		a.mu.Unlock()
	}
	return n, err
}

// opened opens a file that the server has just opened once more, for appending. It waits for no reader of
// a FIFO.
func (a *appends) opened(packet []byte) {
	if len(packet) < sftpHeader {
		return
	}
	id := binary.BigEndian.Uint32(packet[5:])
	name, ok := a.opens[id]
	if delete(a.opens, id); !ok || packet[4] != sftpHandle {
		return
	}
	handle, _ := sftpString(packet[sftpHeader:])
	if f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0); err == nil {
		a.handles[string(handle)] = f
	}
}

// Close implements io.Closer.
func (a *appends) Close() error { return a.out.Close() }

// sftpString cuts a string off. A damaged one is empty, with nothing after it.
func sftpString(b []byte) (s, after []byte) {
	if len(b) < 4 {
		return nil, nil
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return nil, nil
	}
	return b[4 : 4+n], b[4+n:]
}

// sftpResult is the packet that says how a request ended.
func sftpResult(id uint32, err error) []byte {
	code, text := uint32(0), ""
	if err != nil {
		code, text = sftpFailed, err.Error()
	}
	if errors.Is(err, os.ErrPermission) {
		code = sftpDenied
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(1+4+4+4+len(text)+4))
	b = binary.BigEndian.AppendUint32(append(b, sftpStatus), id)
	b = binary.BigEndian.AppendUint32(b, code)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
	return binary.BigEndian.AppendUint32(b, 0) // no language
}
