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

// codings are the HTTP content codings that are decoded here.
var codings = []string{"gzip", "x-gzip", "deflate", "zstd", "br"}

// Bounds on decompression, against small answers that expand: the decoded bytes that are read, the
// window (RFC 9659), and the number of answers of a box at once. What exceeds them passes unread.
const (
	mostDecoded = 64 << 20 // the longest answers of models have a third of it, as events
	mostWindow  = 8 << 20
	maxDecoders = 16
)

// decoders has a slot for each compressed answer that is being read.
type decoders chan struct{}

func newDecoders() decoders { return make(decoders, maxDecoders) }

// tap returns a writer that passes an answer to to, decoded if it has a coding. It discards the
// answer if the coding is unknown or all slots are taken. Close returns when everything was passed.
// Errors are ignored, since the answer itself passes anyway.
func (d decoders) tap(coding string, to io.Writer) io.WriteCloser {
	if plain(coding) {
		return direct{to}
	}
	if readable(coding) {
		select {
		case d <- struct{}{}:
			return newListener(func(r io.Reader) {
				defer func() { <-d }()
				decode(strings.ToLower(coding), r, to)
			})
		default:
		}
	}
	return direct{io.Discard}
}

// decode writes what r contains in a coding, as far as it can be read and is not too much.
func decode(coding string, r io.Reader, to io.Writer) {
	in, err := decoder(coding, r)
	if err != nil {
		return
	}
	defer in.Close()
	_, _ = io.Copy(to, io.LimitReader(in, mostDecoded)) // an error ends what can be read
}

// decoder reads a coding, given in lower case. A zstd frame that asks for a larger window is an
// error.
func decoder(coding string, r io.Reader) (io.ReadCloser, error) {
	switch coding {
	case "deflate":
		return zlib.NewReader(r)
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case "br":
		in := bufio.NewReader(r)
		if first, err := in.Peek(1); err != nil || first[0]&widest == widest {
			return nil, errors.Join(err, errors.New("its window is wider than is read"))
		}
		return io.NopCloser(brotli.NewReader(in)), nil
	}
	return gzip.NewReader(r)
}

// widest are the bits that begin a brotli stream with a window of 16 MiB (RFC 7932, 9.1), the only
// one beyond mostWindow. The decoder allocates what the stream asks for.
const widest = 0b1111

// direct passes bytes without decoding.
type direct struct{ io.Writer }

func (direct) Close() error { return nil }

// listener passes what is written to it to a reading function in a goroutine. Write returns when
// the bytes were taken, Close when the function has returned.
type listener struct {
	*io.PipeWriter
	done chan struct{}
}

// newListener starts read in a goroutine, which ends when read returns, at the latest after Close.
func newListener(read func(io.Reader)) io.WriteCloser {
	r, w := io.Pipe()
	l := &listener{w, make(chan struct{})}
	go func() {
		defer close(l.done)
		defer r.Close() // writes pass at once when enough was heard
		read(bufio.NewReader(r))
	}()
	return l
}

func (l *listener) Close() error {
	defer func() { <-l.done }()
	return l.PipeWriter.Close()
}
