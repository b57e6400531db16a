package cli

import (
	"strings"
	"unicode/utf8"
)

// lineWidth is the width in characters at which texts are wrapped: 80, as help is.
const lineWidth = 80

// Wrapped breaks a text between words into lines that begin with the indent and have at most 80
// characters, where words allow it. Every line ends with a line feed.
func Wrapped(text, indent string) string {
	var b strings.Builder
	at := 0
	for _, w := range strings.Fields(text) {
		n := utf8.RuneCountInString(w)
		switch {
		case at == 0:
			b.WriteString(indent)
			at = utf8.RuneCountInString(indent)
		case at+1+n > lineWidth:
			b.WriteString("\n" + indent)
			at = utf8.RuneCountInString(indent)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(w)
		at += n
	}
	if at > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}
