package yamlfile

import (
	"strings"

	"github.com/agext/levenshtein"
)

// Suggest ends a sentence about an unknown word with the known one that was probably meant, or with
// all of them.
func Suggest[T ~string](word string, known []T) string {
	if s := Nearest(word, known); s != "" {
		return s
	}
	all := make([]string, len(known))
	for i, k := range known {
		all[i] = string(k)
	}
	return ": known are " + strings.Join(all, ", ")
}

// Nearest ends such a sentence with the known word that was probably meant, or with nothing. Near
// is less than two changed letters, and one more for each four of the word.
func Nearest[T ~string](word string, known []T) string {
	best, distance := "", 2+len(word)/4
	if len(word) > 64 { // nobody mistypes a word of that length, and comparing takes quadratic time
		return ""
	}
	for _, k := range known {
		if d := levenshtein.Distance(strings.ToLower(word), strings.ToLower(string(k)), nil); d < distance {
			best, distance = string(k), d
		}
	}
	if best == "" {
		return ""
	}
	return ": did you mean `" + best + "`?"
}
