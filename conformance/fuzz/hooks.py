"""What the document cannot tell schemathesis."""

import json
import os
import re
import zlib

import hypothesis
import jsonschema_rs
import schemathesis
from schemathesis.core.failures import Failure
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi import checks

# Hypothesis' search for cases that score higher, which schemathesis always asks
# for, fails with an IndexError when what is generated depends on earlier answers.
hypothesis.target = lambda *_, **__: None

# The seed's own objects that the run itself stands on: the caller's user, its
# token, organization, membership, instance and domain. They can be found by
# searches, and stateful links lead to them. Deleting one would end the run in
# 401 or 404, and 401 satisfies every check.
# COLLECTION/ID each.
KEPT = frozenset(os.environ.get("KEPT", "").split())


@schemathesis.hook
def filter_case(context, case):
    """Drops requests with two of the ctx.* parameters.

    At most one of them may be given, but OpenAPI cannot say so of query
    parameters (their descriptions do): such a request looks valid and is
    answered with 400. TestSEC218 of conformance/contract sends them.
    """
    return sum(name.startswith("ctx.") for name in case.query or {}) < 2


@schemathesis.hook
def before_call(context, case, kwargs):
    """Turns writes to KEPT to an ID that does not exist."""
    if case.method.upper() == "GET" or case.path.endswith("_search"):
        return
    for collection, name in re.findall(r"(\w+)/\{(\w+)\}", case.path):
        if f"{collection}/{case.path_parameters.get(name)}" in KEPT:
            case.path_parameters[name] = "kept"
    if case.path.endswith("instances/_limit") and any(kept.partition("/")[2] in str(case.body) for kept in KEPT):
        case.body = []  # too short, and so refused


@schemathesis.hook("before_call")
def no_hold(context, case, kwargs):
    """Lets no answer stay open: hold is for who ends the connection themselves."""
    if case.path == "/_dev/worlds" and isinstance(case.body, dict):
        case.body.pop("hold", None)
        case.body["ttl"] = "1s"


# A client of the node, from its ready file: without one nothing comes further than
# its authentication.
CLIENT = json.loads(os.environ.get("CLIENT", "{}"))
GRANT_TYPES = (
    "authorization_code", "refresh_token", "client_credentials",
    "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange",
)


@schemathesis.hook("before_call")
def known_client(context, case, kwargs):
    """Makes three of four requests to endpoints of OAuth those of a known client."""
    if not CLIENT or "OAuth" not in case.operation.definition.raw.get("tags", []):
        return
    place = case.body if isinstance(case.body, dict) else case.query
    chosen = zlib.crc32(repr(place).encode())
    if not isinstance(place, dict) or not place or chosen % 4 == 0:
        return
    place["client_id"] = CLIENT["client_id"]
    if case.path.endswith("/authorize"):
        place["redirect_uri"] = CLIENT["redirect_uri"]
        place["response_type"] = "code"
        place["scope"] = "openid " + str(place.get("scope", ""))
    else:
        place.pop("client_assertion", None)
        place.pop("client_assertion_type", None)
        case.headers.pop("Authorization", None)
        kwargs.get("headers", {}).pop("Authorization", None)
        place["client_secret"] = CLIENT["client_secret"]
    if "grant_type" in place:
        place["grant_type"] = GRANT_TYPES[chosen % len(GRANT_TYPES)]


# Why a request that fits the document may be refused as INVALID_ARGUMENT, by the
# reason of the refusal: rules that no keyword of JSON Schema can say, because they
# depend on what is stored, on the time, or on how texts are read. Each is in
# the description of its field. A pair of reason and words is for rules of
# the contract, which all have the reason INVALID_FIELD.
BEYOND_SCHEMA = {
    ("INVALID_FIELD", "must be greater than now"): "the clock",
    ("INVALID_FIELD", "a name"): "OpenAPI 3.0 has no keyword for the names of a map's members",
    ("INVALID_FIELD", "one of response_output, gcs_output and s3_output has to be given, and no other"): "unions of requests burden clients more than they tell",
    ("INVALID_FIELD", "must be a duration above 0 and at most 24h0m0s, such as 30s or 10m"): "how texts are read",
    ("INVALID_FIELD", "must be base64"): "how texts are read",
    "EXPIRATION_DATE_PAST": "the clock",
    "UNKNOWN_ROLE": "which roles there are depends on the level of the membership",
    "INVALID_USERNAME": "trimming, normalization forms and invisible characters of Unicode",
    "INVALID_KEY": "whether a text is a public key",
    "WEAK_KEY": "what kind of key it is",
    "INVALID_HASH": "whether a text is a hash in a known format",
    "PASSWORD_IS_USERNAME": "compares with another field, or with what is stored",
    "CURRENT_PASSWORD_MISSING": "depends on whose password it is",
    "WRONG_PASSWORD": "compares with what is stored",
    "CODE_INVALID": "compares with what is stored",
    "INVALID_SCHEMA": "the metaschema of JSON Schema, and what the server supports of it",
    "NULL_VALUE": "null inside a free object: no keyword forbids it at every depth",
    "INVALID_LANGUAGE": "the registry of languages",
    "LANGUAGE_NOT_SUPPORTED": "which texts there are",
    "DEFAULT_LANGUAGE_RESTRICTED": "compares with another field, or with what is stored",
    "INVALID_REDIRECT_URI": "depends on the type of the application and its development mode",
    "INVALID_LOGOUT_URI": "depends on the development mode of the application",
    "INVALID_ORIGIN": "depends on the development mode of the application",
    "PRIVATE_KEY_REQUIRED": "of a message that answers show too, and without it",
    "CLIENT_SECRET_REQUIRED": "compares with what is stored",
    "SECRET_REQUIRED": "compares with what is stored",
    "TOKEN_REQUIRED": "of a message that answers show too, and without it",
    "USER_REQUIRED": "depends on another field",
    "UNUSED_OAUTH": "depends on another field",
    "UNENCRYPTED_AUTH": "depends on another field",
    "INVALID_HOST": "which ports mail servers have",
    "PROVIDER_TYPE_FIXED": "compares with what is stored",
    "INHERITED_READ_ONLY": "depends on the context that defines the resource",
    "CONTEXT_REQUIRED": "which roles the caller has",
    "IMAGE_TYPE_NOT_SUPPORTED": "whether bytes are a picture",
    "IMAGE_BROKEN": "whether bytes are a picture",
    "IMAGE_TOO_LARGE": "how many pixels a picture has",
    "CONTRAST_TOO_LOW": "compares with other fields, or with what is stored",
    "MESSAGE_TEXT_BROKEN": "what is a variable in a text",
    "MESSAGE_TEXT_INCOMPLETE": "which variables a kind of message needs",
    "MESSAGE_TEXT_NOT_IN_SMS": "depends on the kind of message",
    "MESSAGE_TEXT_TOO_LONG": "depends on the kind of message",
    "MESSAGE_TEXT_VARIABLE_UNKNOWN": "which variables a kind of message has",
    "INCLUDE_CYCLE": "depends on the other executions",
    "INCLUDE_DEPTH": "depends on the other executions",
    "INCLUDE_TYPE": "depends on the other executions",
}


# The same for the endpoints of OAuth, by their error codes. The schema of a form
# cannot say which clients, codes and tokens there are, nor which parameters belong
# to which grant type.
OAUTH_ERRORS = {
    "invalid_request": "what is needed depends on grant_type, response_type and the client; parameters are there once",
    "invalid_client": "which clients there are",
    "unsupported_grant_type": "the description names the grant types; RFC 6749 has an error of its own for others",
    "invalid_token": "which tokens there are",
    "invalid_grant": "which codes and tokens there are",
    "invalid_scope": "scopes are a list in a text, of what depends on the client",
    "unauthorized_client": "what the client is allowed",
}


def oauth_error(case, response):
    """The error code of an endpoint of OAuth, in JSON or on a page."""
    if "OAuth" not in case.operation.definition.raw.get("tags", []):
        return None
    page = re.search(r'id="error-code"[^>]*>([a-z_]+)<', response.text)
    if page:
        return page.group(1)
    try:
        return response.json().get("error")
    except ValueError:
        return None


def refusal(response):
    """The Status of an answer of 400, its reason and its words."""
    if response.status_code != 400 or "json" not in response.headers.get("content-type", [""])[0]:
        return None, None, []
    status = response.json()
    if "code" not in status:
        return None, None, []
    details = status.get("details", [])
    reason = next((d["reason"] for d in details if "reason" in d), None)
    violations = [v for d in details for v in d.get("fieldViolations", [])]
    # OpenAPI 3.0 has no keyword for the names of a map's members; descriptions say their rules.
    return status, reason, ["a name" if v.get("field", "").endswith('"]') else v["description"] for v in violations]


def declared(case, status, reason):
    """Whether the operation says that it refuses in some states."""
    operation = case.operation.definition.raw
    if reason == "FEATURE_DISABLED":
        return "x-feature" in operation
    if reason == "EXECUTION_FAILED":
        return True  # any operation can have executions around it
    return "precondition" in operation.get("x-refusals", [])


def of_file(case, response):
    """Whether what is wrong is the file of an import, which has no schema in the request.

    It may have gigabytes, and is read as it comes; its shape is TransferFile.
    """
    wrong = '"field":"data_orgsv1', '"reason":"UNKNOWN_VERSION"'
    return case.path == "/admin/v1/import" and response.status_code == 400 and any(one in response.text for one in wrong)


def not_a_server_error(ctx, response, case):
    """The check of that name; a storage that is not there is no fault of the server."""
    if response.status_code == 503 and "STORAGE_UNAVAILABLE" in response.text:
        return None
    return schemathesis.checks.not_a_server_error(ctx, response, case)


def positive_data_acceptance(ctx, response, case):
    """The check of that name, which knows only statuses."""
    if of_file(case, response):
        return None
    if response.status_code in (400, 401) and oauth_error(case, response) in OAUTH_ERRORS:
        return None
    status, reason, words = refusal(response)
    if status and status["code"] == 9 and declared(case, status, reason):
        return None
    if reason in BEYOND_SCHEMA or words and all((reason, word) in BEYOND_SCHEMA for word in words):
        return None
    return checks.positive_data_acceptance(ctx, response, case)


def negative_data_rejection(ctx, response, case):
    """The check of that name.

    The JSON mapping of Protobuf, and so the server, takes the number of an enum
    value for its name; the document tells clients to send names only.
    """
    if 200 <= response.status_code < 300 and case.meta and isinstance(case.body, (dict, list)):
        root = case.operation.schema.raw_schema
        modes = {place: info.mode for place, info in case.meta.components.items()}
        content = case.operation.definition.raw.get("requestBody", {}).get("content", {}).get("application/json")
        if content and all(mode.is_positive for place, mode in modes.items() if place != ParameterLocation.BODY):
            named = with_names(case.body, content["schema"], root)
            validator = jsonschema_rs.Draft4Validator({**content["schema"], "components": root["components"]})
            if named != case.body and validator.is_valid(named):
                return None
    if 200 <= response.status_code < 300 and numbers_in_query(case):
        return None
    return checks.negative_data_rejection(ctx, response, case)


def numbers_in_query(case):
    """Whether a parameter of the query that is an enum has a number."""
    root, query = case.operation.schema.raw_schema, case.query or {}
    for parameter in case.operation.definition.raw.get("parameters", []):
        schema = parameter.get("schema", {})
        while "$ref" in schema:
            schema = root["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        if parameter.get("in") == "query" and "enum" in schema and str(query.get(parameter["name"], "")).isdigit():
            return True
    return False


def ensure_resource_availability(ctx, response, case):
    """The check of that name.

    It takes an operation for one on what was created before it if all its
    parameters come from there, so also one without, like BulkLimit, whose body
    names something else.
    """
    if case.path_parameters:
        return checks.ensure_resource_availability(ctx, response, case)
    return None


def with_names(value, schema, root):
    """value with a name for every number of an enum."""
    while "$ref" in schema:
        schema = root["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    for part in schema.get("allOf", []):
        value = with_names(value, part, root)
    if schema.get("type") == "string" and schema.get("enum") and isinstance(value, int) and not isinstance(value, bool):
        return schema["enum"][-1]
    if isinstance(value, list) and "items" in schema:
        return [with_names(item, schema["items"], root) for item in value]
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties")
        of = {name: properties.get(name) or (more if isinstance(more, dict) else {}) for name in value}
        return {name: with_names(member, of[name], root) for name, member in value.items()}
    return value


# schemathesis.check refuses a name that is taken.
for check in not_a_server_error, positive_data_acceptance, negative_data_rejection, ensure_resource_availability:
    schemathesis.checks.CHECKS.register(check)


@schemathesis.check
def refusals_are_declared(ctx, response, case):
    """No operation refuses for a state without saying so in x-refusals."""
    status, reason, _ = refusal(response)
    if status and status.get("code") == 9 and not declared(case, status, reason):
        raise Failure(
            operation=case.operation.label,
            title="Undeclared refusal",
            message=f"{reason} is a FAILED_PRECONDITION, but x-refusals has no precondition",
        )


@schemathesis.check
def statuses_are_named(ctx, response, case):
    """4XX in the document is only for what a target of an execution refuses.

    A method that the path does not have (TRACE) is no operation: 405 is the answer.
    """
    named = case.operation.definition.raw.get("responses", {})
    status = response.status_code
    if "4XX" in named and 400 <= status < 500 and status != 405 and str(status) not in named and "EXECUTION_REFUSED" not in response.text:
        raise Failure(
            operation=case.operation.label,
            title="Status that is not named",
            message=f"{status} is no status of the operation",
        )
