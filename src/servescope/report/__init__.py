"""The report: a page, figures and plain lines, drawn from saved result tables alone."""
