package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"

	"agentbox/agentbox/yamlfile"
)

// set stores the text of n in *to, as check returns it, and reports whether it did. Without a
// value *to keeps its default.
func set[T any](d *decoder, n *yaml.Node, to *T, check func(string) (T, error)) bool {
	s, ok := d.Text(n)
	if !ok {
		return false
	}
	v, err := check(s)
	if err != nil {
		d.Fail(n, "%v", err)
		return false
	}
	*to = v
	return true
}

// list stores a list of texts, or a single one, in *to, each as check returns it. An empty list
// sets *to to an empty, non-nil slice; see complete.
func list[T any](d *decoder, n *yaml.Node, to *[]T, check func(string) (T, error)) {
	*to = []T{}
	d.Items(n, func(item *yaml.Node) {
		var v T
		if set(d, item, &v, check) {
			*to = append(*to, v)
		}
	})
}

func (d *decoder) integer(n *yaml.Node, to *int, least, most int) {
	v, _ := d.Value(n)
	i, err := strconv.Atoi(v.Value)
	if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!int" || err != nil {
		d.Fail(n, "expected a whole number, found %s", yamlfile.Kind(v))
		return
	}
	if i < least || i > most {
		d.Fail(n, "%d is out of range: %d to %d", i, least, most)
		return
	}
	*to = i
}

// amount reads a number above 0. Omitting a limit means no limit, so 0 must not mean the same.
// Infinity and NaN are YAML numbers but refused: no comparison with NaN would ever end anything.
func (d *decoder) amount(n *yaml.Node, to *float64) {
	v, _ := d.Value(n)
	f, err := strconv.ParseFloat(v.Value, 64)
	if v.Kind != yaml.ScalarNode || v.ShortTag() == "!!str" || err != nil || !(f > 0) || math.IsInf(f, 0) {
		d.Fail(n, "expected a number above 0, found %s", yamlfile.Kind(v))
		return
	}
	*to = f
}

// size reads a size from least to most, both in bytes and whole MiB, as ParseSize returns.
func (d *decoder) size(n *yaml.Node, to *int64, least, most int64) {
	set(d, n, to, func(s string) (int64, error) {
		bytes, err := ParseSize(s)
		if err == nil && (bytes < least || bytes > most) {
			err = fmt.Errorf("%s is out of range: %s to %s", FormatSize(bytes), FormatSize(least), FormatSize(most))
		}
		return bytes, err
	})
}

// FormatSize formats a size in bytes for ParseSize, in whole units. bytes should be a multiple
// of 1 MiB; a remainder is cut off.
func FormatSize(bytes int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}} {
		if bytes >= u.size && bytes%u.size == 0 {
			return strconv.FormatInt(bytes/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(bytes>>20, 10) + "MiB"
}

func (d *decoder) duration(n *yaml.Node, to *time.Duration) { set(d, n, to, parseDuration) }

func choice[T ~string](d *decoder, n *yaml.Node, to *T, words ...T) {
	set(d, n, to, func(s string) (T, error) {
		if !slices.Contains(words, T(s)) {
			return "", fmt.Errorf("unknown value `%s`%s", agentbox.Clip(s), yamlfile.Suggest(s, words))
		}
		return T(s), nil
	})
}
