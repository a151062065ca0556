// What openapi-generator's rust client makes of the contract.

use openapi::apis::{configuration::Configuration, o_auth_api, service_actions_api as actions, Error};
use openapi::models::{
    PatchTarget, RestRequestResponse, RestWebhook, Target, TargetFieldName, TargetNameFilter, TargetSearchFilter, TextFilterMethod,
};

fn env(name: &str) -> String {
    std::env::var(name).expect(name)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let name = env("WRIT_NAME");
    let settings = Configuration { base_path: env("WRIT_URL"), bearer_access_token: Some(env("WRIT_TOKEN")), ..Configuration::new() };

    let mut target = Target::new(name.clone(), "10s".to_string());
    target.rest_webhook = Some(Box::new(RestWebhook::new("https://hooks.example/a".to_string())));
    target.is_async = Some(true);
    let id = actions::create_target(&settings, target.clone()).await.unwrap().details.id;
    println!("created {id}");

    let read = actions::get_target(&settings, &id).await.unwrap().target.target;
    assert_eq!((read.name.as_str(), read.timeout.as_str(), read.is_async), (name.as_str(), "10s", Some(true)));
    assert_eq!(read.rest_webhook.unwrap().url, "https://hooks.example/a");
    println!("read {:?}", read.rest_request_response);

    let mut by_name = TargetNameFilter::new();
    by_name.name = Some(name.to_uppercase());
    by_name.method = Some(TextFilterMethod::TextFilterMethodEqualsIgnoreCase);
    let filter = TargetSearchFilter { name: Some(Box::new(by_name)), ..Default::default() };
    let found = actions::search_targets(&settings, None, Some(10), Some(true), Some(TargetFieldName::TargetFieldNameName), Some(vec![filter])).await.unwrap();
    assert_eq!(found.result.iter().map(|each| &each.details.id).collect::<Vec<_>>(), [&id]);
    assert!(found.details.end_of_list);
    println!("found {}", found.details.total_result);

    let patch = PatchTarget {
        timeout: Some("5s".to_string()),
        rest_request_response: Some(Box::new(RestRequestResponse::new("https://hooks.example/b".to_string()))),
        ..Default::default()
    };
    actions::patch_target(&settings, &id, Some(patch)).await.unwrap();
    let patched = actions::get_target(&settings, &id).await.unwrap().target.target;
    assert_eq!((patched.name, patched.timeout, patched.rest_webhook), (name, "5s".to_string(), None));
    println!("patched {}", patched.rest_request_response.unwrap().url);

    if let Err(Error::ResponseError(refusal)) = actions::create_target(&settings, target).await {
        let status: serde_json::Value = serde_json::from_str(&refusal.content).unwrap();
        println!("refused {} {}", refusal.status.as_u16(), status["details"][0]["reason"].as_str().unwrap());
    }

    actions::delete_target(&settings, &id).await.unwrap();
    if let Err(Error::ResponseError(refusal)) = actions::get_target(&settings, &id).await {
        println!("deleted {}", refusal.status.as_u16());
    }

    let (client, secret) = (env("WRIT_CLIENT_ID"), env("WRIT_CLIENT_SECRET"));
    let anonymous = Configuration { base_path: env("WRIT_URL"), ..Configuration::new() };
    let tokens = o_auth_api::token(
        &anonymous, "client_credentials", None, None, None, None, Some("openid"), None, None, None, None, None, None, None, None,
        Some(&client), Some(&secret), None, None,
    ).await.unwrap();
    println!("token {:?}", tokens.token_type);
}
