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

// codings are those of HTTP that are read here.
var codings = []string{"gzip", "x-gzip", "deflate", "zstd", "br"}

// Bounds of what a server can have us do by sending little: what comes out of a compressed answer
// is read so far, with a window of that size (RFC 9659), for so many answers of a box at once. What
// is beyond them passes unread.
const (
	mostDecoded = 64 << 20 // the longest answers of models have a third of it, as events
	mostWindow  = 8 << 20
	maxDecoders = 16
)

// decoders has a place for each compressed answer that is read at present.
type decoders chan struct{}

func newDecoders() decoders { return make(decoders, maxDecoders) }

// ear gives what an answer is to be told in, as it comes: directly where it has no coding, and else
// from a decoder; nothing is heard in a coding that is not known, or when all places are taken. Its
// Close returns when all of that was heard. What goes wrong in it is no error: the answer passes
// all the same.
func (d decoders) ear(coding string, to io.Writer) io.WriteCloser {
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

// decode writes what r has in a coding, as far as that can be read and is not too much.
func decode(coding string, r io.Reader, to io.Writer) {
	in, err := decoder(coding, r)
	if err != nil {
		return
	}
	defer in.Close()
	_, _ = io.Copy(to, io.LimitReader(in, mostDecoded)) // an error ends what can be read
}

// decoder reads a coding in lower case. A zstd frame that asks for a larger window is an error, as
// is what is not in the coding.
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
// one beyond mostWindow: the decoder takes as much as the stream asks for.
const widest = 0b1111

// direct hears without a decoder.
type direct struct{ io.Writer }

func (direct) Close() error { return nil }

// listener hears in a goroutine of its own, for readers that want to be the ones who ask. A write
// returns when it was taken, and Close when all was heard.
type listener struct {
	*io.PipeWriter
	done chan struct{}
}

// newListener starts read in a goroutine, which ends when read returns; that is at the latest when
// the listener is closed.
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
