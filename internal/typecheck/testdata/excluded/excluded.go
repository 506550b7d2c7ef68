// Package excluded imports what only windows has.
package excluded

import _ "example.com/excluded/none"
