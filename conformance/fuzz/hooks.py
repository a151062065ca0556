"""What the document cannot tell schemathesis."""

import schemathesis


@schemathesis.hook
def filter_case(context, case):
    """Drops requests with two of the ctx.* parameters.

    At most one of them may be given, but OpenAPI cannot say so of query
    parameters (their descriptions do): such a request looks valid and is
    answered with 400. TestSEC218 of conformance/contract sends them.
    """
    return sum(name.startswith("ctx.") for name in case.query or {}) < 2
