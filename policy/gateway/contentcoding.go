package gateway

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// contentCodings are the HTTP content codings (RFC 9110, 8.4.1) that are decoded here.
var contentCodings = []string{"gzip", "x-gzip", "deflate", "zstd", "br"}

// Bounds on decompression, against decompression bombs: the decoded bytes that are read of a
// response, the window in bytes (RFC 9659), and the number of responses of a box that are decoded
// at the same time. What exceeds them passes without being read.
const (
	maxDecoded  = 64 << 20 // three times the longest response of a model, as events
	maxWindow   = 8 << 20
	maxDecoders = 16
)

// decoders is a semaphore with a slot for each compressed response that is being read.
type decoders chan struct{}

func newDecoders() decoders { return make(decoders, maxDecoders) }

// tap returns a writer that passes a response to to, decoded if it has a coding. It discards the
// response if the coding is unknown or all slots are in use. Close returns when everything was
// passed. Errors are ignored, since the response itself passes anyway.
func (d decoders) tap(coding string, to io.Writer) io.WriteCloser {
	if isIdentity(coding) {
		return undecoded{to}
	}
	if canDecode(coding) {
		select {
		case d <- struct{}{}:
			return newTapWriter(func(r io.Reader) {
				defer func() { <-d }()
				decode(strings.ToLower(coding), r, to)
			})
		default:
		}
	}
	return undecoded{io.Discard}
}

// decode writes what r contains in a coding, up to an error or maxDecoded bytes.
func decode(coding string, r io.Reader, to io.Writer) {
	in, err := decoder(coding, r)
	if err != nil {
		return
	}
	defer in.Close()
	_, _ = io.Copy(to, io.LimitReader(in, maxDecoded)) // an error ends what can be read
}

// decoder reads a coding, in lower case. A zstd frame with a larger window is an error.
func decoder(coding string, r io.Reader) (io.ReadCloser, error) {
	switch coding {
	case "deflate":
		return zlib.NewReader(r)
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case "br":
		in := bufio.NewReader(r)
		if first, err := in.Peek(1); err != nil || first[0]&brotliLargeWindow == brotliLargeWindow {
			return nil, errors.Join(err, errors.New("its window is too large"))
		}
		return io.NopCloser(brotli.NewReader(in)), nil
	}
	return gzip.NewReader(r)
}

// brotliLargeWindow are the bits that begin a brotli stream with a window of 16 MiB (RFC 7932,
// 9.1), the only one beyond maxWindow. The decoder allocates what the stream asks for.
const brotliLargeWindow = 0b1111

// undecoded passes bytes without decoding.
type undecoded struct{ io.Writer }

func (undecoded) Close() error { return nil }

// tapWriter passes what is written to it to a reading function in a goroutine. Write returns when
// the bytes were read, Close when the function has returned.
type tapWriter struct {
	*io.PipeWriter
	done chan struct{}
}

// newTapWriter starts read in a goroutine, which ends when read returns, at the latest after Close.
func newTapWriter(read func(io.Reader)) io.WriteCloser {
	r, w := io.Pipe()
	l := &tapWriter{w, make(chan struct{})}
	go func() {
		defer close(l.done)
		defer r.Close() // later writes fail at once, and are ignored
		read(bufio.NewReader(r))
	}()
	return l
}

func (t *tapWriter) Close() error {
	defer func() { <-t.done }()
	return t.PipeWriter.Close()
}
