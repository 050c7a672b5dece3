"""Turn rows and values into text, HTML and JSON primitives that are safe to show.

Rows come in raw and leave escaped: a control character in a name cannot move the cursor, colour
the terminal or forge a line, and no text can become markup. No function here fails because a
value's own `__str__` or `__repr__` does. None of this package's types is known here.
"""

from hypergraph.display.explained import explained as explained
from hypergraph.display.tables import Block as Block
from hypergraph.display.tables import Table as Table
from hypergraph.display.tables import as_html as as_html
from hypergraph.display.tables import as_text as as_text
from hypergraph.display.text import batch_time as batch_time
from hypergraph.display.text import closest as closest
from hypergraph.display.text import columns as columns
from hypergraph.display.text import did_you_mean as did_you_mean
from hypergraph.display.text import escape as escape
from hypergraph.display.text import escape_html as escape_html
from hypergraph.display.text import execution_time as execution_time
from hypergraph.display.text import first_line as first_line
from hypergraph.display.text import plural as plural
from hypergraph.display.text import run_time as run_time
from hypergraph.display.values import bounded as bounded
from hypergraph.display.values import jsonable as jsonable
from hypergraph.display.values import preview as preview
